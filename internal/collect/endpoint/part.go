package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// grace is how long before its end a sampled profile is still waited for at
// Stop: it covers rounding to whole seconds and the request's own way.
const grace = time.Second

// part is one profile of a collector.
type part struct {
	name string
	url  *url.URL

	// cumulative profiles
	first, last *fetched
	period      int // mutex: sampling fraction, -1 unknown

	// sampled profiles
	seconds int
	due     time.Time
	cancel  context.CancelFunc
	done    chan struct{}
	err     error

	begin, end int64 // CLOCK_MONOTONIC, ns
	warning    string
}

func (p *part) cumulative() bool {
	return p.name == recording.Mutex || p.name == recording.Block
}

func (p *part) start(c *Collector) error {
	p.first, p.last, p.err, p.warning, p.period = nil, nil, nil, "", -1
	if p.cumulative() {
		return p.startCumulative(c)
	}
	p.begin = monotonic()
	p.seconds = max(1, int(c.opts.Duration.Round(time.Second)/time.Second))
	p.due = time.Now().Add(time.Duration(p.seconds) * time.Second)
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan struct{})
	p.cancel, p.done = cancel, done
	go func() {
		defer close(done)
		p.last, p.err = c.fetch(ctx, p.name, p.url, p.seconds)
	}()
	return nil
}

func (p *part) startCumulative(c *Collector) (err error) {
	if p.name == recording.Mutex {
		p.period = c.mutexFraction(p.url)
	}
	if p.first, err = c.fetch(c.ctx, p.name, p.url, 0); err != nil {
		return err
	}
	p.begin = p.first.middle()
	return nil
}

func (p *part) stop(c *Collector) error {
	p.end = monotonic()
	if p.cumulative() {
		if p.last, p.err = c.fetch(c.ctx, p.name, p.url, 0); p.err == nil {
			p.end = p.last.middle()
		}
		return p.err
	}
	defer p.abandon()
	if left := time.Until(p.due); left > grace {
		p.abandon()
		if p.last == nil { // else the server was quicker than asked
			p.err = nil
			p.warning = fmt.Sprintf("%s: left out: the window closed %s before the %d s that were asked for, and an unfinished profile cannot be had",
				p.name, left.Round(100*time.Millisecond), p.seconds)
			return nil
		}
	}
	<-p.done // bounded: the fetch has a deadline
	return p.err
}

// abandon cancels a sampled profile under way and waits for its goroutine.
func (p *part) abandon() {
	if p.cancel != nil {
		p.cancel()
		<-p.done
		p.cancel = nil
	}
}

// mutexFraction reads the target's mutex profile fraction from the profile's
// text form, which has it in its head ("sampling period=1"); -1 when unknown.
// No such reading exists for the block rate.
func (c *Collector) mutexFraction(u *url.URL) int {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.Timeout)
	defer cancel()
	v := *u
	v.RawQuery = "debug=1"
	resp, err := c.get(ctx, &v, 0)
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	head := make([]byte, 256)
	n, _ := resp.Body.Read(head)
	return parseFraction(string(head[:n]))
}

func parseFraction(head string) int {
	for line := range strings.SplitSeq(head, "\n") {
		if v, ok := strings.CutPrefix(line, "sampling period="); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && n >= 0 {
				return n
			}
		}
	}
	return -1
}

// result gives the part's profile of the closed window, or nil and why not.
func (c *Collector) result(p *part) (*profile.Profile, string) {
	if p.last == nil {
		return nil, p.warning
	}
	if !p.cumulative() {
		return p.last.profile, ""
	}
	if p.first == nil {
		return nil, p.warning
	}
	d, err := delta(p.first.profile, p.last.profile)
	if err != nil {
		return nil, (&Error{Profile: p.name, URL: c.address.shown(p.url), Err: err}).Error()
	}
	d.TimeNanos = p.first.profile.TimeNanos
	d.DurationNanos = p.end - p.begin
	return p.judge(d)
}

// middle is the best guess of when the target took the snapshot: halfway
// between request and answer.
func (f *fetched) middle() int64 { return f.early + (f.late-f.early)/2 }

// judge tells a target without contention, whose empty profile is a finding,
// from a profiler that is off, whose empty profile says nothing and is left out.
func (p *part) judge(d *profile.Profile) (*profile.Profile, string) {
	switch {
	case len(d.Sample) > 0:
		return d, ""
	case p.period == 0:
		return nil, "mutex: not captured: the target's mutex profiler is off (fraction 0): runtime.SetMutexProfileFraction(1) turns it on"
	case p.period > 0:
		return d, fmt.Sprintf("mutex: no contention in the window (the profiler is on, fraction %d)", p.period)
	case len(p.first.profile.Sample) > 0:
		return d, p.name + ": no contention in the window (the profiler has recorded some before)"
	case p.name == recording.Block:
		return nil, "block: not captured: the target's block profiler is off (the default; runtime.SetBlockProfileRate(1) turns it on), or nothing has blocked since it started: its rate cannot be read from outside"
	}
	return nil, p.name + ": not captured: the profiler is off, or there was no contention since it started; the target does not tell its fraction"
}

// delta is last − first, sample by sample, as `go tool pprof -base` computes it;
// samples that did not change are dropped.
func delta(first, last *profile.Profile) (*profile.Profile, error) {
	base := first.Copy()
	for _, s := range base.Sample { // not Scale: it goes through float64, which is inexact past 2⁵³ ns
		for i := range s.Value {
			s.Value[i] = -s.Value[i]
		}
	}
	d, err := profile.Merge([]*profile.Profile{base, last})
	if err != nil {
		return nil, fmt.Errorf("the two snapshots do not match: %w", err)
	}
	for _, s := range d.Sample {
		for _, v := range s.Value {
			if v < 0 { // counts since process start never fall
				return nil, ErrRestarted
			}
		}
	}
	return d, nil
}

func (c *Collector) capture() *recording.Capture {
	out := &recording.Capture{
		Profiles: map[string]*profile.Profile{},
		Collector: recording.Collector{
			StartMonoNS: c.begin, EndMonoNS: c.end,
			Settings: map[string]string{"url": c.address.shown(c.address.url)},
			Counters: map[string]int64{},
		},
	}
	names := make([]string, len(c.parts))
	for i, p := range c.parts {
		names[i] = p.name
		prof, warning := c.result(p)
		if p.err != nil {
			warning = p.err.Error()
		}
		if prof != nil {
			out.Profiles[p.name] = prof
		}
		if warning != "" {
			out.Warnings = append(out.Warnings, warning)
		}
		p.describe(&out.Collector)
		if p.name == recording.Mutex {
			out.Collector.Settings["mutex_delay"] = mutexMeaning(c.opts.GoVersion)
		}
	}
	out.Collector.Name = strings.Join(names, ",")
	return out
}

// describe adds the part's settings and counters to the manifest entry.
func (p *part) describe(out *recording.Collector) {
	if p.last != nil {
		out.Counters[p.name+"_bytes"] = p.last.bytes
	}
	switch {
	case !p.cumulative():
		out.Settings[p.name+"_seconds"] = strconv.Itoa(p.seconds)
	case p.first != nil && p.last != nil:
		// The edges of a delta are known to within half a round trip each.
		out.Counters[p.name+"_edge_uncertainty_ns"] = (p.first.late - p.first.early + p.last.late - p.last.early) / 2
	}
	if p.period >= 0 && p.name == recording.Mutex {
		out.Settings["mutex_fraction"] = strconv.Itoa(p.period)
	}
}

// IsUnavailable reports whether err means that the target offers no such
// profile at all, as opposed to a capture that went wrong.
func IsUnavailable(err error) bool {
	return errors.Is(err, ErrRefused) || errors.Is(err, ErrNoProfile) || errors.Is(err, ErrNotProfile)
}
