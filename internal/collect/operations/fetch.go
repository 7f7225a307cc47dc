package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readTimeout bounds one reading: longer, and the edge it stands for is blurred
// beyond use.
const readTimeout = 5 * time.Second

// Read reads the counter now. Its errors are one line.
func (c *Counter) Read(ctx context.Context) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := c.read(ctx)
	if err != nil {
		return Reading{}, fmt.Errorf("operations: cannot read %s: %w", c, err)
	}
	return r, nil
}

func (c *Counter) read(ctx context.Context) (Reading, error) {
	var early, late atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { early.Store(monotonic()) },
		GotFirstResponseByte: func() { late.Store(monotonic()) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url.String(), nil)
	if err != nil {
		return Reading{}, err
	}
	req.Close = true // two readings a window: a connection kept would only be in the target's way
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/json;q=0.9, */*;q=0.1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Reading{}, transportError(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Reading{}, fmt.Errorf("it answered %s: is this the right path?", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return Reading{}, transportError(err)
	case len(body) > maxBody:
		return Reading{}, fmt.Errorf("the response is larger than %d MiB", maxBody>>20)
	}
	v, err := value(resp.Header.Get("Content-Type"), body, c.name)
	switch {
	case err != nil:
		return Reading{}, err
	case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
		return Reading{}, fmt.Errorf("its value %v is no count", v)
	}
	return Reading{Value: v, Early: early.Load(), Late: late.Load()}, nil
}

// transportError names the cause without repeating the URL.
func transportError(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("nothing listens there")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v", readTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("the server hung up")
	}
	return err
}

// monotonic reads CLOCK_MONOTONIC in nanoseconds, the clock of every window.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}
