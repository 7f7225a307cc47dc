package gowait

import (
	"errors"
	"fmt"
	"time"

	"contend/bpf"
	"contend/internal/collect/pace"
	"contend/internal/collect/target"
)

// watch keeps the cost of a window within its bound, in ModeAuto. Waits other than
// for locks go first; bursts keep to their own share (see affordsBurst); where
// locks alone are still too dear, they are observed in parts of the window.
type watch struct {
	c          *Collector
	budget     budget
	pacer      *pace.Pacer // of the locks, once they are all that is captured; else nil
	quit, done chan struct{}
	err        error
	dropped    pace.Spent // at the end of the first part with all waits; zero if it did not end
}

// startWatch watches the window that has just begun.
func (c *Collector) startWatch() *watch {
	w := &watch{
		c: c, budget: budget{c.bound(), c.options.Length},
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	if c.parks == nil {
		w.pacer = pace.New(w.budget.bound, w.budget.length, pace.Spent{})
	}
	go w.run()
	return w
}

// bound is the share that all may cost.
func (c *Collector) bound() float64 {
	if c.options.MaxOverhead == 0 {
		return defaultOverhead
	}
	return c.options.MaxOverhead
}

// end ends the watching, before the window does. A target that has exited needs none.
func (w *watch) end() error {
	if w == nil {
		return nil
	}
	select {
	case <-w.done:
	default:
		close(w.quit)
		<-w.done
	}
	if errors.Is(w.err, target.ErrExited) {
		return nil
	}
	return w.err
}

func (w *watch) run() {
	defer close(w.done)
	timer := time.NewTimer(pace.Tick)
	defer timer.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-timer.C:
		}
		s, err := w.spent()
		if err == nil {
			err = w.decide(s)
		}
		if err != nil {
			w.err = err
			return
		}
		wait := pace.Interval(s.Elapsed)
		if w.pacer != nil {
			wait = w.pacer.Wait(time.Duration(now() - w.c.window.start))
		}
		timer.Reset(wait)
	}
}

// decide opens or closes a part where it is time to.
func (w *watch) decide(s pace.Spent) error {
	p := w.c.parks
	switch first := w.dropped; {
	case p != nil && p.start != 0 && first == pace.Spent{}:
		if !w.budget.over(s) {
			return nil
		}
		w.dropped = s
		w.pacer = pace.New(w.budget.bound, w.budget.length, s)
		return w.drop()
	case p != nil && p.start != 0:
		if s.Elapsed > w.budget.length+shortest { // the window is longer than was told
			w.budget.length = 0
			return w.drop()
		}
		return nil
	case p != nil && w.pacer.Whole() && w.resumes(s):
		return w.resume()
	}
	switch w.pacer.Next(s) {
	case pace.Close:
		return w.c.suspend()
	case pace.Open:
		return w.c.resume(w.pacer.Start())
	}
	return nil
}

// resumes reports whether it is time for a last part with all waits.
func (w *watch) resumes(s pace.Spent) bool {
	again := w.budget.again(w.dropped)
	return again != 0 && s.Elapsed >= again && s.Elapsed <= w.budget.length-shortest && w.budget.affords(s, w.dropped)
}

// drop takes the probes out, which cost even if idle, and closes the open part. The
// kernel's grace period is not waited for: meanwhile all else goes on costing.
func (w *watch) drop() error {
	p := w.c.parks
	stop := now() + settle.Nanoseconds()
	if err := p.setWindow(uint64(p.start), uint64(stop)); err != nil {
		return err
	}
	sleepUntil(stop)
	w.c.detach(p.links)
	p.links = nil
	ended, err := p.end(stop)
	if err != nil {
		return err
	}
	w.c.window.parts = append(w.c.window.parts, ended)
	return nil
}

func (w *watch) resume() error {
	p := w.c.parks
	if err := p.attach(); err != nil {
		return err
	}
	start, err := p.open()
	if err != nil {
		return err
	}
	sleepUntil(start)
	p.begun()
	return nil
}

// spent reads the cost since the window's start.
func (w *watch) spent() (pace.Spent, error) {
	c := w.c
	elapsed := time.Duration(now() - c.window.start)
	cpu, err := c.process.CPUTime()
	if err != nil {
		return pace.Spent{}, err
	}
	hits, run, err := c.cost()
	if err != nil {
		return pace.Spent{}, err
	}
	cost := run + time.Duration(hits)*c.trap
	if c.options.Others != nil {
		cost += c.options.Others()
	}
	return pace.Spent{Elapsed: elapsed, Cost: cost, Base: max(elapsed, cpu-c.window.cpu)}, nil
}

// cost is the probe hits and the programs' run time since the window's start.
func (c *Collector) cost() (hits int64, run time.Duration, err error) {
	counts, err := c.readCounters()
	if err != nil {
		return 0, 0, err
	}
	ran, err := c.runTime()
	if err != nil {
		return 0, 0, err
	}
	hits = counts[bpf.GowaitCounterC_ENTERED] - c.window.counts[bpf.GowaitCounterC_ENTERED]
	ran -= c.window.runNS
	for _, q := range c.window.parts {
		hits += q.counts[bpf.GoparksCounterC_ENTERED]
		ran += q.runNS
	}
	if c.parks == nil || c.parks.start == 0 {
		return hits, time.Duration(ran), nil
	}
	more, moreRun, err := c.parks.cost()
	return hits + more, time.Duration(ran + moreRun), err
}

// describe says for the manifest what the watch did, or nothing.
func (w *watch) describe(parts []*part, length time.Duration) string {
	if w == nil || w.dropped == (pace.Spent{}) {
		return ""
	}
	var captured time.Duration
	for _, q := range parts {
		captured += time.Duration(q.stop - q.start)
	}
	return fmt.Sprintf("every wait was captured for %s of %s only: it cost %.1f %%, --max-overhead is %.1f %%",
		captured.Round(time.Millisecond), length.Round(time.Millisecond), 100*w.dropped.Share(), 100*w.budget.bound)
}
