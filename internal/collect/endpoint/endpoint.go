// Package endpoint captures profiles from a target's own net/http/pprof (and
// fgprof) endpoint over HTTP. It needs no privilege, and it disturbs: the
// target does the work.
//
// mutex and block are cumulative since the process started. They are fetched
// at both edges of the window and subtracted, so the delta is exact to the
// nanosecond. cpu and fgprof are sampled by the target for a number of seconds
// fixed when the window opens.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
)

// Names are the profiles this package can capture.
var Names = []string{recording.Mutex, recording.Block, recording.Fgprof, recording.CPU}

// Options adjust a collector; the zero value is usable.
type Options struct {
	// Duration is the planned length of the window. cpu and fgprof are asked
	// for this long, rounded to whole seconds, at least one. Default 10 s.
	Duration time.Duration
	// Timeout bounds one fetch beyond the seconds it samples for. Default 10 s.
	Timeout time.Duration
	// MaxBody bounds a response as sent, MaxProfile its uncompressed size, in
	// bytes. Defaults 64 MiB and 256 MiB: the profile of a process with a
	// hundred thousand distinct stacks is about 20 MiB.
	MaxBody, MaxProfile int64
	// CAFile names certificates to trust beside the system's, in PEM.
	CAFile string
	// GoVersion is the target's, where known: what a mutex profile means depends on it.
	GoVersion string
}

func (o Options) withDefaults() Options {
	if o.Duration <= 0 {
		o.Duration = 10 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 64 << 20
	}
	if o.MaxProfile <= 0 {
		o.MaxProfile = 256 << 20
	}
	return o
}

// A Collector captures some profiles of one endpoint over one window at a
// time. Open one collector per profile to give each its own manifest entry.
type Collector struct {
	ctx    context.Context
	cancel context.CancelFunc
	opts   Options
	parts  []*part

	address *address
	client  *http.Client

	running bool
	stopped bool
	begin   int64 // CLOCK_MONOTONIC, ns
	end     int64
}

// Open checks the address and that each named cumulative profile exists there,
// so that a wrong URL fails before the window opens. It starts nothing. ctx
// bounds Open alone: a window that was opened can be closed after an interrupt.
func Open(ctx context.Context, baseURL string, names []string, o Options) (*Collector, error) {
	addr, err := parseAddress(baseURL)
	if err != nil {
		return nil, err
	}
	client, err := addr.client(o.CAFile)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("endpoint: no profile named")
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &Collector{ctx: life, cancel: cancel, address: addr, client: client, opts: o.withDefaults()}
	for _, name := range names {
		p, err := c.newPart(ctx, name)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.parts = append(c.parts, p)
	}
	return c, nil
}

func (c *Collector) newPart(ctx context.Context, name string) (*part, error) {
	if !slices.Contains(Names, name) {
		return nil, fmt.Errorf("endpoint: unknown profile %q, have %s", name, strings.Join(Names, ", "))
	}
	p := &part{name: name, url: profileURL(c.address.url, name)}
	if name == recording.Fgprof {
		return p, c.checkFgprof(ctx, p)
	}
	if !p.cumulative() {
		return p, nil // asking would start the profiler
	}
	_, err := c.fetch(ctx, p.name, p.url, 0)
	return p, err
}

// profileURL gives a profile's address: cpu is called "profile" by
// net/http/pprof, and fgprof lives beside its folder, not in it.
func profileURL(base *url.URL, name string) *url.URL {
	u := *base
	switch name {
	case recording.CPU:
		u.Path += "/profile"
	case recording.Fgprof:
		u.Path = path.Join(path.Dir(u.Path), "fgprof")
	default:
		u.Path += "/" + name
	}
	return &u
}

// Start opens the window: cumulative profiles are read, sampled ones begun. It
// returns the reading of CLOCK_MONOTONIC, in nanoseconds, from which all of
// them count.
func (c *Collector) Start() (int64, error) {
	if c.running {
		return 0, errors.New("endpoint: started twice without a stop")
	}
	c.running, c.stopped = true, false
	if err := c.each(func(p *part) error { return p.start(c) }); err != nil {
		c.running = false
		c.abandon()
		return 0, err
	}
	c.begin = c.parts[0].begin
	for _, p := range c.parts[1:] {
		c.begin = max(c.begin, p.begin)
	}
	return c.begin, nil
}

// Stop closes the window. A sampled profile whose seconds are nearly over is
// waited for; one stopped well before is given up, since neither net/http/pprof
// nor fgprof hands out an unfinished profile, and Capture says so. After an
// error Capture still gives the profiles that were had.
func (c *Collector) Stop() (int64, error) {
	if c.stopped {
		return c.end, nil
	}
	if !c.running {
		return 0, errors.New("endpoint: stopped without a start")
	}
	c.running, c.stopped = false, true
	err := c.each(func(p *part) error { return p.stop(c) })
	c.end = c.parts[0].end
	for _, p := range c.parts[1:] {
		c.end = min(c.end, p.end)
	}
	return c.end, err
}

// Close gives up what is under way. It is idempotent.
func (c *Collector) Close() error {
	c.cancel()
	c.abandon()
	c.client.CloseIdleConnections()
	return nil
}

func (c *Collector) abandon() {
	for _, p := range c.parts {
		p.abandon()
	}
}

// each runs f over all parts at once, so that their windows agree, and waits for all.
func (c *Collector) each(f func(*part) error) error {
	errs := make([]error, len(c.parts))
	done := make(chan struct{})
	for i, p := range c.parts {
		go func() {
			errs[i] = f(p)
			done <- struct{}{}
		}()
	}
	for range c.parts {
		<-done
	}
	return errors.Join(errs...)
}

// Capture gives the profiles of the closed window. A profile that could not be
// had is missing from it and explained in Warnings.
func (c *Collector) Capture() (*recording.Capture, error) {
	if !c.stopped {
		return nil, errors.New("endpoint: no closed window to capture")
	}
	return c.capture(), nil
}
