package endpoint

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"
)

// Reasons for which a profile could not be had. Errors of this package wrap
// one of them and read as one line.
var (
	ErrRefused      = errors.New("connection refused")
	ErrNoProfile    = errors.New("no such profile")
	ErrNotProfile   = errors.New("not a profile")
	ErrTruncated    = errors.New("truncated response")
	ErrTooLarge     = errors.New("response too large")
	ErrWriteTimeout = errors.New("server's write timeout is shorter than the profile")
	ErrStatus       = errors.New("the server refused")
	ErrRestarted    = errors.New("the target restarted within the window")
)

// Error says which profile failed, where, why, and what may help.
type Error struct {
	Profile string
	URL     string // without credentials
	Err     error  // wraps one of the reasons above, or the transport's error
	Detail  string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("endpoint: %s from %s: %v", e.Profile, e.URL, e.Err)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// fetched is one profile and when the target made it, as far as can be told
// from outside: some time between the two clock readings.
type fetched struct {
	profile *profile.Profile
	bytes   int64 // as sent
	early   int64 // CLOCK_MONOTONIC when the request had been written, ns
	late    int64 // CLOCK_MONOTONIC at the first byte of the response, ns
}

// fetch gets and parses one profile. seconds > 0 asks the target to sample for so long.
func (c *Collector) fetch(ctx context.Context, name string, u *url.URL, seconds int) (*fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+c.opts.Timeout)
	defer cancel()
	fail := func(detail string, reason error) error {
		return &Error{Profile: name, URL: c.address.shown(u), Err: reason, Detail: detail}
	}
	var early, late atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { early.Store(monotonic()) },
		GotFirstResponseByte: func() { late.Store(monotonic()) },
	})
	began := time.Now()
	resp, err := c.get(ctx, u, seconds)
	if err != nil {
		return nil, fail(transportError(err, time.Since(began), seconds))
	}
	defer resp.Body.Close()
	if detail, reason := statusError(resp); reason != nil {
		return nil, fail(detail, reason)
	}
	body, err := readBounded(resp.Body, c.opts.MaxBody)
	if err != nil {
		return nil, fail(bodyError(err, time.Since(began), seconds))
	}
	p, err := parse(body, resp.Header.Get("Content-Type"), c.opts.MaxProfile)
	if err != nil {
		return nil, fail("", err)
	}
	return &fetched{profile: p, bytes: int64(len(body)), early: early.Load(), late: late.Load()}, nil
}

func (c *Collector) get(ctx context.Context, u *url.URL, seconds int) (*http.Response, error) {
	v := *u
	if seconds > 0 {
		v.RawQuery = "seconds=" + strconv.Itoa(seconds)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.String(), nil)
	if err != nil {
		return nil, err
	}
	return c.client.Do(req)
}

// transportError names the cause of a request that got no response.
func transportError(err error, after time.Duration, seconds int) (detail string, reason error) {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // its text would repeat the URL
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; is the target's pprof endpoint enabled?", ErrRefused
	case tlsError(err) != "":
		return tlsError(err), ErrTLS
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", after.Round(time.Millisecond)), err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return hungUp(after, seconds)
	}
	return "", err
}

// hungUp explains a closed connection. While a profile is being sampled that is
// mostly the server's own WriteTimeout, which it does not tell; a process that
// ends looks the same.
func hungUp(after time.Duration, seconds int) (detail string, reason error) {
	if seconds > 0 {
		return fmt.Sprintf(
			"it hung up after %s of %d s; raise http.Server.WriteTimeout, or ask for less (or the process ended)",
			after.Round(10*time.Millisecond), seconds), ErrWriteTimeout
	}
	return "the server hung up without an answer", ErrTruncated
}

func bodyError(err error, after time.Duration, seconds int) (detail string, reason error) {
	switch {
	case errors.Is(err, ErrTooLarge):
		return "", err
	case seconds > 0 && after >= time.Second:
		return hungUp(after, seconds)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the server hung up in the middle", ErrTruncated
	}
	return "", err
}

// statusError explains any status but 200 with the first line of the body.
func statusError(resp *http.Response) (detail string, reason error) {
	if resp.StatusCode == http.StatusOK {
		return "", nil
	}
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	line := firstLine(head)
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return "404: is this the right path, and is net/http/pprof (or fgprof) registered there?", ErrNoProfile
	case resp.StatusCode == http.StatusUnauthorized:
		return "401: it asks for a user and a password: http://user:password@host, or http://user@host and the password in " + PasswordEnv, ErrStatus
	case strings.Contains(line, "WriteTimeout"): // net/http/pprof up to Go 1.22 answers so
		return line, ErrWriteTimeout
	case strings.HasPrefix(strings.TrimSpace(line), "<"):
		line = "" // an HTML page
	}
	if line == "" {
		return resp.Status, ErrStatus
	}
	return resp.Status + ": " + line, ErrStatus
}

// readBounded reads all of r, or fails with ErrTooLarge past max bytes.
func readBounded(r io.Reader, max int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > max {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, max)
	}
	return b, nil
}

// parse reads a gzipped or plain pprof profile of at most max bytes
// uncompressed. contentType serves the error message only.
func parse(body []byte, contentType string, max int64) (*profile.Profile, error) {
	data := body
	if len(body) >= 2 && body[0] == 0x1f && body[1] == 0x8b {
		var err error
		if data, err = gunzip(body, max); err != nil {
			return nil, err
		}
	} else if kind := kindOf(contentType, body); kind != "" {
		return nil, fmt.Errorf("%w: the server answered with %s", ErrNotProfile, kind)
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("%w: empty response", ErrNotProfile)
	}
	p, err := profile.ParseUncompressed(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrNotProfile, firstLine([]byte(err.Error())))
	}
	return p, nil
}

func gunzip(body []byte, max int64) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err == nil {
		var data []byte
		if data, err = readBounded(zr, max); err == nil {
			return data, nil
		}
	}
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, fmt.Errorf("%w once uncompressed", err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the gzip stream ends early", ErrTruncated)
	}
	return nil, fmt.Errorf("%w: %v", ErrNotProfile, err)
}

// kindOf recognises the bodies that gateways, login pages and API servers send
// in place of a profile.
func kindOf(contentType string, body []byte) string {
	head := bytes.TrimSpace(body[:min(len(body), 64)])
	switch {
	case bytes.HasPrefix(head, []byte("<")), strings.HasPrefix(contentType, "text/html"):
		return "an HTML page"
	case bytes.HasPrefix(head, []byte("{")), bytes.HasPrefix(head, []byte("[")), strings.HasPrefix(contentType, "application/json"):
		return "JSON"
	case strings.HasPrefix(contentType, "text/plain"):
		return "plain text: " + firstLine(body)
	}
	return ""
}

// firstLine is the first line of b, short and printable.
func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b[:min(len(b), 512)]), []byte("\n"))
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '�' {
			return -1
		}
		return r
	}, string(line))
	if len(s) > 120 {
		s = strings.ToValidUTF8(s[:120], "") + "…"
	}
	return strings.TrimSpace(s)
}

// monotonic reads CLOCK_MONOTONIC in nanoseconds, the clock of every window.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}
