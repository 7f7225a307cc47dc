package offcpu

import (
	"errors"
	"fmt"
	"math"
	"time"

	"contend/bpf"
	"contend/internal/collect/pace"
	"contend/internal/collect/target"
	"contend/internal/recording"
)

// Where the programs cost more than the bound, parts of the window are observed, at
// random moments, and the programs detached between them: an idle program, too, runs
// on every switch of the host. Each part stands for a period of the window and is
// weighted by the period ÷ the part. Of an interval that an edge of a part cuts, the
// time inside counts; it counts as a switch where it ends.

// thinned is what the parts of a window that ended left.
type thinned struct {
	sums     map[bpf.OffcpuOffKey]*weighted
	stacks   map[uint64]bpf.OffcpuStack
	counters map[string]int64
	parts    []pace.Part
	last     *harvest // the last part, whose weight is not known yet
	length   int64    // its length, ns
	stands   int64    // up to when the parts before it stand for the window, ns from its start
	seeds    uint64   // stacks of threads from before a part, so far
	bound    float64
}

type weighted struct {
	count, sleeping, runqueue float64
	max                       uint64
}

// watch keeps the cost of a window within its bound.
type watch struct {
	c          *Collector
	pacer      *pace.Pacer
	cpu        time.Duration // of the target, at the start
	quit, done chan struct{}
	err        error
}

func (c *Collector) startWatch() *watch {
	w := &watch{
		c: c, pacer: pace.New(c.opts.MaxOverhead, c.opts.Length, pace.Spent{}),
		quit: make(chan struct{}), done: make(chan struct{}),
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
	close(w.quit)
	<-w.done
	if errors.Is(w.err, target.ErrExited) {
		return nil
	}
	return w.err
}

func (w *watch) run() {
	defer close(w.done)
	timer := time.NewTimer(pace.Tick)
	defer timer.Stop()
	for w.err == nil {
		select {
		case <-w.quit:
			return
		case <-timer.C:
		}
		w.err = w.look()
		timer.Reset(w.pacer.Wait(w.elapsed()))
	}
}

func (w *watch) elapsed() time.Duration { return time.Duration(monotonic() - w.c.begin) }

func (w *watch) look() error {
	cpu, err := w.c.process.CPUTime()
	if err != nil {
		return err
	}
	elapsed := w.elapsed()
	switch w.pacer.Next(pace.Spent{Elapsed: elapsed, Cost: w.c.Cost(), Base: max(elapsed, cpu-w.cpu)}) {
	case pace.Close:
		return w.c.suspend()
	case pace.Open:
		return w.c.resume(w.pacer.Start())
	}
	return nil
}

// suspend ends a part and detaches the programs.
func (c *Collector) suspend() error {
	stop := monotonic()
	if err := errors.Join(c.objs.WindowStop.Set(uint64(stop)), c.detach()); err != nil {
		return fmt.Errorf("offcpu: ending a part of the window: %w", err)
	}
	h, err := c.harvest(stop)
	if err != nil {
		return fmt.Errorf("offcpu: reading a part of the window: %w", err)
	}
	if c.thinned == nil {
		c.thinned = &thinned{
			sums: make(map[bpf.OffcpuOffKey]*weighted), stacks: make(map[uint64]bpf.OffcpuStack),
			counters: make(map[string]int64), bound: c.opts.MaxOverhead,
		}
	}
	c.thinned.last, c.thinned.length = h, stop-c.part
	c.part = 0
	return c.clear()
}

// resume attaches the programs again and begins a part. Its period starts at a time of
// the window: so long the part before stands.
func (c *Collector) resume(period time.Duration) error {
	c.thinned.weigh(period.Nanoseconds())
	if err := c.setWindow(0, 0); err != nil {
		return err
	}
	if err := c.attach(); err != nil {
		return err
	}
	c.part = monotonic()
	return c.setWindow(uint64(c.part), noStop)
}

// merged is what all parts of the closed window have, weighted.
func (c *Collector) merged() *harvest {
	t := c.thinned
	if c.part != 0 {
		t.last, t.length = c.raw, c.end-c.part
	}
	t.weigh(c.end - c.begin)
	h := &harvest{
		sums: make(map[bpf.OffcpuOffKey]bpf.OffcpuOffSum), stacks: t.stacks, counters: t.counters, cost: c.readCost(),
	}
	round := func(f float64) uint64 { return uint64(math.Round(f)) }
	for k, w := range t.sums {
		h.sums[k] = bpf.OffcpuOffSum{Count: round(w.count), Sleeping: round(w.sleeping), Runqueue: round(w.runqueue), Max: w.max}
	}
	return h
}

// weigh adds the last part, which stands for the window up to a time of it.
func (t *thinned) weigh(until int64) {
	h := t.last
	if h == nil {
		return
	}
	part := pace.Part{Length: time.Duration(t.length), Period: time.Duration(until - t.stands)}
	seeds := make(map[uint64]uint64)
	for k, v := range h.sums {
		part.Sum += float64(v.Sleeping + v.Runqueue)
		if k.Flags&uint8(bpf.OffcpuOffFlagsOFF_SEEDED) != 0 {
			k.User = t.seed(h, seeds, k.User)
		}
		if k.Edge&uint8(bpf.OffcpuOffEdgeOFF_EDGE_END) != 0 {
			k.Edge, v.Count = 0, 0
		}
		w := t.sums[k]
		if w == nil {
			w = new(weighted)
			t.sums[k] = w
		}
		w.count += part.Weight() * float64(v.Count)
		w.sleeping += part.Weight() * float64(v.Sleeping)
		w.runqueue += part.Weight() * float64(v.Runqueue)
		w.max = max(w.max, v.Max)
	}
	for id, s := range h.stacks {
		if !isSeed(id) {
			t.stacks[id] = s
		}
	}
	for name, n := range h.counters {
		if name == counterMissed { // since the window's start
			t.counters[name] = n
		} else {
			t.counters[name] += n
		}
	}
	t.parts = append(t.parts, part)
	t.last, t.stands = nil, until
}

// isSeed tells the ids of stacks from before the attach, SEED_ID of offcpu.bpf.c, from
// hashes.
func isSeed(id uint64) bool { return id>>32 == 1<<31 }

// seed gives such a stack an id of its own, numbered from the top: the next part names
// the thread's next stack alike.
func (t *thinned) seed(h *harvest, seeds map[uint64]uint64, id uint64) uint64 {
	if merged, ok := seeds[id]; ok {
		return merged
	}
	t.seeds++
	merged := math.MaxUint64 - t.seeds
	seeds[id] = merged
	if s, ok := h.stacks[id]; ok {
		t.stacks[merged] = s
	}
	return merged
}

// describe says in the manifest how much was observed; nil for all.
func (t *thinned) describe() *recording.Thinned {
	if t == nil {
		return nil
	}
	return pace.Describe(t.parts)
}

// warning says so to people.
func (t *thinned) warning() string {
	d := t.describe()
	if d == nil {
		return ""
	}
	return fmt.Sprintf("offcpu: threads were observed in %d random parts, %.3g s of %.3g s, to keep to %.3g %% of overhead; all figures are estimates",
		d.Parts, float64(d.ObservedNS)/1e9, float64(t.stands)/1e9, 100*t.bound)
}
