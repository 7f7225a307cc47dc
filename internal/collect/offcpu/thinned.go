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
// on every switch of the host. Of an interval that an edge of a part cuts, the time
// inside counts; it counts as a switch where it ends.

// thinned is what the parts of a window that ended left.
type thinned struct {
	h        *harvest
	parts    []pace.Part
	observed int64  // their length, ns
	whole    int64  // of the window, ns; set at its end
	seeds    uint64 // stacks of threads from before a part, so far
	bound    float64
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
		return w.c.resume()
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
		c.thinned = &thinned{bound: c.opts.MaxOverhead}
	}
	c.thinned.add(h, stop-c.part, false)
	c.part = 0
	return c.clear()
}

// resume attaches the programs again and begins a part.
func (c *Collector) resume() error {
	if err := c.setWindow(0, 0); err != nil {
		return err
	}
	if err := c.attach(); err != nil {
		return err
	}
	c.part = monotonic()
	return c.setWindow(uint64(c.part), noStop)
}

// merged is what all parts of the closed window have.
func (c *Collector) merged() (*harvest, error) {
	t := c.thinned
	if c.part != 0 {
		t.add(c.raw, c.end-c.part, true)
	}
	t.whole = c.end - c.begin
	t.h.cost = c.readCost()
	return t.h, nil
}

// add merges a part. What went on at its end counts there if it was the window's, too.
func (t *thinned) add(h *harvest, length int64, last bool) {
	if t.h == nil {
		t.h = &harvest{
			sums: make(map[bpf.OffcpuOffKey]bpf.OffcpuOffSum), stacks: make(map[uint64]bpf.OffcpuStack),
			counters: make(map[string]int64),
		}
	}
	var off uint64
	seeds := make(map[uint64]uint64)
	for k, v := range h.sums {
		off += v.Sleeping + v.Runqueue
		if k.Flags&uint8(bpf.OffcpuOffFlagsOFF_SEEDED) != 0 {
			k.User = t.seed(h, seeds, k.User)
		}
		if end := uint8(bpf.OffcpuOffEdgeOFF_EDGE_END); !last && k.Edge&end != 0 {
			k.Edge, v.Count = 0, 0
		}
		s := t.h.sums[k]
		s.Count += v.Count
		s.Sleeping += v.Sleeping
		s.Runqueue += v.Runqueue
		s.Max = max(s.Max, v.Max)
		t.h.sums[k] = s
	}
	for id, s := range h.stacks {
		if id&seedBit == 0 || t.h.stacks[id].N == 0 {
			t.h.stacks[id] = s
		}
	}
	for name, n := range h.counters {
		if name == counterMissed || name == counterOpen { // since the start; at the end
			t.h.counters[name] = n
		} else {
			t.h.counters[name] += n
		}
	}
	if !last {
		t.h.counters[counterOpen] = 0
	}
	t.parts = append(t.parts, pace.Part{Length: time.Duration(length), Sum: float64(off)})
	t.observed += length
}

// seedBit marks the ids of stacks from before the attach, SEED_ID of offcpu.bpf.c.
// Those of merged parts are numbered from the top.
const seedBit = 1 << 63

// seed gives such a stack an id of its own: the next part names the thread's next
// stack alike.
func (t *thinned) seed(h *harvest, seeds map[uint64]uint64, id uint64) uint64 {
	if merged, ok := seeds[id]; ok {
		return merged
	}
	t.seeds++
	merged := math.MaxUint64 - t.seeds
	seeds[id] = merged
	if s, ok := h.stacks[id]; ok {
		t.h.stacks[merged] = s
	}
	return merged
}

// scale is the window ÷ what of it was observed.
func (t *thinned) scale() float64 {
	if t == nil || t.observed == 0 {
		return 1
	}
	return float64(t.whole) / float64(t.observed)
}

// describe says in the manifest how much was observed; nil for all.
func (t *thinned) describe() *recording.Thinned {
	if t == nil {
		return nil
	}
	e := pace.Total(t.parts, time.Duration(t.whole))
	d := &recording.Thinned{Parts: len(t.parts), ObservedNS: t.observed, DelayNS: int64(e.Value), LowNS: int64(e.Low)}
	if !math.IsInf(e.High, 0) {
		d.HighNS = int64(e.High)
	}
	return d
}

// warning says so to people.
func (t *thinned) warning() string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("offcpu: threads were observed in %d random parts, %.3g s of %.3g s, to keep to %.3g %% of overhead, and are scaled up",
		len(t.parts), float64(t.observed)/1e9, float64(t.whole)/1e9, 100*t.bound)
}
