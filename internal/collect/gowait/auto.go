package gowait

import (
	"errors"
	"fmt"
	"time"

	"contend/bpf"
	"contend/internal/collect/golayout"
	"contend/internal/collect/target"
)

// Modes: which waits are captured, the values of Options.Mode.
const (
	ModeLocks = "locks" // those on semaphores
	ModeAll   = "all"   // every wait
	ModeAuto  = "auto"  // every wait while its cost stays within Options.MaxOverhead, else as ModeLocks
)

const (
	defaultStacks   = 8192
	defaultOverhead = 0.02
)

func (c *Collector) openParks(layout *golayout.Layout) error {
	if c.options.Mode == "" || c.options.Mode == ModeLocks {
		return nil
	}
	p, err := openParks(c, layout)
	if err != nil {
		if c.options.Mode == ModeAuto && !errors.Is(err, target.ErrExited) {
			c.noParks = err
			return nil
		}
		return err
	}
	c.parks = p
	return nil
}

// budget says for how long every wait may be captured in ModeAuto: all the time
// while the cost stays within the bound. Else at either end of the window, for a
// second at most, if that fits into what the whole window may cost; where the
// window's length is not known, at its start only.
type budget struct {
	bound  float64       // the share that all may cost
	length time.Duration // of the window; 0 if not known
}

// Below shortest, too little has happened to tell the cost. More than longest
// tells no more of what else waits.
const (
	shortest    = 100 * time.Millisecond
	longestPart = time.Second
)

// spent is what contend has cost since the window began.
type spent struct {
	elapsed time.Duration
	cost    time.Duration // run time of the programs, and of the traps
	base    time.Duration // what the cost is a share of: see recording.Overhead
}

func (s spent) share() float64 { return float64(s.cost) / float64(max(s.base, 1)) }

// over reports that the first part must end.
func (b budget) over(s spent) bool {
	if s.elapsed < shortest || s.share() <= b.bound {
		return false
	}
	// A quarter may be spent beforehand: as much is for the end, the rest for locks.
	return s.elapsed >= longestPart || float64(s.cost) > b.bound*float64(b.length)/4
}

// again returns when a last part is to begin, after the first ended with first
// spent; 0 for never.
func (b budget) again(first spent) time.Duration {
	if begin := b.length - first.elapsed; begin > 2*first.elapsed {
		return begin
	}
	return 0
}

// affords reports whether as much as the first part cost can be spent once more.
func (b budget) affords(s, first spent) bool {
	base := max(s.base, b.length)
	return float64(s.cost+first.cost) <= b.bound*float64(base)
}

// watch keeps the cost of a window within the budget.
type watch struct {
	c          *Collector
	budget     budget
	cpu        time.Duration // of the target, at the start
	quit, done chan struct{}
	err        error
	dropped    spent // at the end of the first part; zero if it did not end
}

// startWatch watches the window that has just begun.
func (c *Collector) startWatch() *watch {
	w := &watch{
		c: c, budget: budget{c.options.MaxOverhead, c.options.Length},
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	if w.budget.bound == 0 {
		w.budget.bound = defaultOverhead
	}
	w.cpu, w.err = c.process.CPUTime()
	go w.run()
	return w
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
	if w.err != nil {
		return
	}
	tick := time.NewTicker(shortest / 2)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
		}
		s, err := w.spent()
		if err == nil {
			err = w.decide(s)
		}
		if err != nil {
			w.err = err
			return
		}
	}
}

// decide opens or closes a part where it is time to.
func (w *watch) decide(s spent) error {
	p := w.c.parks
	switch first := w.dropped; {
	case first == spent{}:
		if !w.budget.over(s) {
			return nil
		}
		w.dropped = s
		return w.drop()
	case p.start == 0:
		again := w.budget.again(first)
		if again == 0 || s.elapsed < again || s.elapsed > w.budget.length-shortest || !w.budget.affords(s, first) {
			return nil
		}
		return w.resume()
	case s.elapsed > w.budget.length+shortest: // the window is longer than was told
		w.budget.length = 0
		return w.drop()
	}
	return nil
}

// drop closes the open part and takes the probes out, which cost even if idle.
func (w *watch) drop() error {
	p := w.c.parks
	ended, err := p.end(now() + settle.Nanoseconds())
	if err != nil {
		return err
	}
	w.c.window.parts = append(w.c.window.parts, ended)
	return p.detach()
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
func (w *watch) spent() (spent, error) {
	c := w.c
	elapsed := time.Duration(now() - c.window.start)
	cpu, err := c.process.CPUTime()
	if err != nil {
		return spent{}, err
	}
	hits, run, err := c.cost()
	if err != nil {
		return spent{}, err
	}
	return spent{elapsed, run + time.Duration(hits)*c.trap, max(elapsed, cpu-w.cpu)}, nil
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
	if c.parks.start == 0 {
		return hits, time.Duration(ran), nil
	}
	more, moreRun, err := c.parks.cost()
	return hits + more, time.Duration(ran + moreRun), err
}

// describe says for the manifest what the watch did, or nothing.
func (w *watch) describe(parts []*part, length time.Duration) string {
	if w == nil || w.dropped == (spent{}) {
		return ""
	}
	var captured time.Duration
	for _, q := range parts {
		captured += time.Duration(q.stop - q.start)
	}
	return fmt.Sprintf("every wait was captured for %s of %s only, and locks all the time: every wait cost %.1f %%, --max-overhead is %.1f %%",
		captured.Round(time.Millisecond), length.Round(time.Millisecond), 100*w.dropped.share(), 100*w.budget.bound)
}
