package endpoint

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxFgprof is how many goroutines fgprof may be asked to sample. Each of its 99
// samples a second stops the program and walks all of their stacks: some 10 ms of
// stopping for 10,000, all there is.
const maxFgprof = 10_000

// ErrTooMany says that sampling would stop the target for most of the time.
var ErrTooMany = errors.New("declined")

// checkFgprof declines to sample a target with too many goroutines. One that does not
// tell how many it has is sampled.
func (c *Collector) checkFgprof(ctx context.Context, p *part) error {
	n := c.goroutines(ctx)
	if n <= maxFgprof {
		return nil
	}
	return &Error{
		Profile: p.name, URL: c.address.shown(p.url), Err: ErrTooMany,
		Detail: fmt.Sprintf("the target has %d goroutines, and fgprof stops it 99 times a second to walk the stacks of all (bound %d); waits and offcpu see as much without stopping it", n, maxFgprof),
	}
}

// goroutines is how many the target has, by the head of its goroutine profile's text
// ("goroutine profile: total 12"); 0 when unknown.
func (c *Collector) goroutines(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	u := *c.address.url
	u.Path += "/goroutine"
	u.RawQuery = "debug=1"
	resp, err := c.get(ctx, &u, 0)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	head := make([]byte, 64)
	n, _ := resp.Body.Read(head)
	_, rest, ok := strings.Cut(string(head[:n]), "total ")
	count, _, _ := strings.Cut(rest, "\n")
	if total, err := strconv.Atoi(strings.TrimSpace(count)); ok && err == nil {
		return total
	}
	return 0
}
