// Package operations counts what a target does, the denominator of "per
// message": it reads a counter that the target itself serves over HTTP, as
// Prometheus text or as JSON (expvar, NATS /varz, NSQ /stats), at both edges of
// a window.
package operations

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"

	"contend/internal/recording"
)

// CollectorName is what the manifest calls this collector.
const CollectorName = "operations"

// defaultUnit names one operation where the user does not.
const defaultUnit = "operation"

// A Counter is one number at one address, or the sum of several there.
type Counter struct {
	Unit string // what is counted, in the singular: "message"

	url  *url.URL
	name string // a metric, with or without labels, or a path into JSON
}

// ParseCounter reads URL#NAME or URL#NAME=UNIT. NAME is a Prometheus metric,
// with labels to choose among its series (all are summed), or a path into a JSON
// document: keys and indices joined by dots, "*" for the sum over all members.
func ParseCounter(spec string) (*Counter, error) {
	address, name, found := strings.Cut(spec, "#")
	u, err := url.Parse(address)
	if err != nil || !found || name == "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no counter: want URL#NAME, like http://127.0.0.1:8222/varz#in_msgs", spec)
	}
	c := &Counter{Unit: defaultUnit, url: u, name: name}
	// A label's value may hold "=": the unit comes after the labels.
	labels := strings.LastIndexByte(name, '}') + 1
	if i := strings.IndexByte(name[labels:], '='); i >= 0 && (labels > 0 || !strings.Contains(name, "{")) {
		c.name, c.Unit = name[:labels+i], name[labels+i+1:]
	}
	if c.name == "" || c.Unit == "" {
		return nil, fmt.Errorf("%q is no counter: want URL#NAME=UNIT, like http://127.0.0.1:8222/varz#in_msgs=message", spec)
	}
	if strings.Contains(c.name, "{") {
		if _, err := parseSelector(c.name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// String is the counter as the user named it, without credentials.
func (c *Counter) String() string { return c.url.Redacted() + "#" + c.name }

// Spec is what ParseCounter takes, without credentials; "" for no counter.
func (c *Counter) Spec() string {
	switch {
	case c == nil:
		return ""
	case c.Unit == defaultUnit:
		return c.String()
	}
	return c.String() + "=" + c.Unit
}

// Reading is a counter's value, and when it was read.
type Reading struct {
	Value float64 // exact up to 2⁵³
	// CLOCK_MONOTONIC, ns: when the request had been written, and when the first
	// byte of the response came. The target looked at some time between the two.
	Early, Late int64
}

// MonoNS is the best guess of when the target looked: halfway between.
func (r Reading) MonoNS() int64 { return r.Early + (r.Late-r.Early)/2 }

// Delta is what was counted between two readings, and in how long.
func (c *Counter) Delta(first, last Reading) (count, elapsedNS int64, err error) {
	if last.Value < first.Value {
		return 0, 0, fmt.Errorf("operations: %s went back from %.0f to %.0f within the window: the target was restarted, or this is no counter",
			c, first.Value, last.Value)
	}
	d := math.Round(last.Value - first.Value)
	if d >= math.MaxInt64 {
		return 0, 0, fmt.Errorf("operations: %s grew by %g within the window, more than can be counted", c, d)
	}
	return int64(d), last.MonoNS() - first.MonoNS(), nil
}

// A Collector reads a counter at both edges of a window.
type Collector struct {
	counter     *Counter
	first, last Reading
	err         error // the end of the window could not be read
}

// Open reads the counter once, so that a wrong name fails before the window opens.
func Open(ctx context.Context, c *Counter) (*Collector, error) {
	if _, err := c.Read(ctx); err != nil {
		return nil, err
	}
	return &Collector{counter: c}, nil
}

// Start reads the counter at the beginning of the window.
func (c *Collector) Start() (monoNS int64, err error) {
	c.err = nil
	c.first, err = c.counter.Read(context.Background()) // bounded by its own time limit
	return c.first.MonoNS(), err
}

// Stop reads it at the end. A failure is a warning of the capture: what else was
// recorded is worth keeping.
func (c *Collector) Stop() (monoNS int64, err error) {
	c.last, c.err = c.counter.Read(context.Background())
	return c.last.MonoNS(), nil
}

// Capture returns what was counted between the two readings.
func (c *Collector) Capture() (*recording.Capture, error) {
	out := &recording.Capture{Collector: recording.Collector{
		Name: CollectorName, StartMonoNS: c.first.MonoNS(),
		Settings: map[string]string{"counter": c.counter.String(), "unit": c.counter.Unit},
	}}
	count, err := int64(0), c.err
	if err == nil {
		count, _, err = c.counter.Delta(c.first, c.last)
	}
	if err != nil {
		out.Warnings = append(out.Warnings, err.Error()+"; nothing is counted per "+c.counter.Unit)
		out.Collector.EndMonoNS = out.Collector.StartMonoNS
		return out, nil
	}
	out.Collector.EndMonoNS = c.last.MonoNS()
	out.Collector.Counters = map[string]int64{
		"start": int64(c.first.Value), "end": int64(c.last.Value),
		// Each edge is known to within half a round trip.
		"edge_uncertainty_ns": (c.first.Late - c.first.Early + c.last.Late - c.last.Early) / 2,
	}
	if count == 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("operations: %s did not move within the window: does the load reach this target?", c.counter))
		return out, nil
	}
	out.Operations = &recording.Operations{Name: c.counter.Unit, Count: count}
	return out, nil
}

// Close has nothing to end.
func (c *Collector) Close() error { return nil }
