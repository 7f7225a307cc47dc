package checkpoint

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"contend/internal/recording"
)

// savepointClients ask for savepoints at the same time, each of the pipelines in
// turn: jobs are stopped with a savepoint independently of each other, and more
// of them at once than there are dispatch threads is what must be survived.
const savepointClients = 16

// maxBacklog ends a run whose load is open before it takes all memory: a task
// takes some 200 bytes.
const maxBacklog = 1_000_000

// openTick is how often the open load looks which triggers to schedule; it
// schedules each a whole interval ahead, so that it never is late.
const openTick = 5 * time.Millisecond

// A pipeline has its lease and its coordinator.
type pipeline struct {
	load        *load
	lease       *Lease
	coordinator *coordinator
	fast        bool
	running     atomic.Bool  // closed load: from a trigger's begin until it arms the next
	overlaps    atomic.Int64 // triggers that began while another ran
	broken      atomic.Int64 // triggers after which none was armed
}

// A load is the pipelines on their scheduler, the prober, and whoever asks for
// savepoints.
type load struct {
	options   *Options
	scheduler Scheduler
	pipelines []*pipeline
	gauges    gauges
	triggers  atomic.Int64 // begun, probes not counted

	failed   chan error // what ends the run early; at most one
	stopping chan struct{}
	clients  sync.WaitGroup // goroutines that the load itself has started
}

func startLoad(o *Options) *load {
	l := &load{options: o, scheduler: o.scheduler(), gauges: newGauges(), failed: make(chan error, 1), stopping: make(chan struct{})}
	complete := o.Complete
	if o.savepoints() == NoSavepoints {
		complete = 0
	}
	for i := range o.Pipelines {
		p := &pipeline{load: l, lease: l.scheduler.Lease(), fast: i < o.Fast}
		body := o.Body
		if p.fast {
			body = 0
		}
		p.coordinator = newCoordinator(o.Interval, body, complete, o.Load == Closed, p.arm)
		l.pipelines = append(l.pipelines, p)
	}
	if o.Load == Open {
		l.clients.Go(l.generate)
	} else {
		for i, p := range l.pipelines {
			p.arm(l.offset(i))
		}
	}
	l.clients.Go(l.probe)
	if o.savepoints() != NoSavepoints {
		for i := range savepointClients {
			l.clients.Go(func() { l.saveAll(i) })
		}
	}
	return l
}

// offset spreads the pipelines' triggers evenly over the interval.
func (l *load) offset(i int) time.Duration {
	return l.options.Interval * time.Duration(i) / time.Duration(len(l.pipelines))
}

func (l *load) stopped() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// sleep waits, and reports false when the load stops first.
func (l *load) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.stopping:
		return false
	}
}

// arm schedules the pipeline's next trigger.
func (p *pipeline) arm(delay time.Duration) {
	if !p.load.stopped() {
		p.running.Store(false)
		p.lease.Schedule(delay, p.fire)
	}
}

// fire is a trigger's body.
func (p *pipeline) fire(t *Task) {
	l := p.load
	delay := t.begun - t.due
	l.gauges[Delay].record(delay)
	l.gauges[Queue].record(t.begun - t.fired)
	if p.fast {
		l.gauges[FastDelay].record(delay)
	}
	l.triggers.Add(1)
	closed := l.options.Load == Closed
	if closed && !p.running.CompareAndSwap(false, true) {
		p.overlaps.Add(1)
	}
	switch p.coordinator.trigger() {
	case tooEarly, notReady, suspended:
		if closed && !l.stopped() {
			p.broken.Add(1)
		}
	}
}

// generate schedules triggers at a fixed rate, however long they take to run.
func (l *load) generate() {
	begin := now()
	next := make([]int64, len(l.pipelines)) // the due time of each pipeline's next trigger
	for i := range next {
		next[i] = begin + int64(l.offset(i))
	}
	for {
		if n := l.scheduler.counts().backlog.Load(); n > maxBacklog {
			l.failed <- fmt.Errorf("%d triggers are due and wait: the load is more than the dispatch threads can ever run", n)
			return
		}
		horizon := now() + int64(l.options.Interval)
		for i, p := range l.pipelines {
			for next[i] <= horizon {
				p.lease.scheduleAt(next[i], p.fire)
				next[i] += int64(l.options.Interval)
			}
		}
		if !l.sleep(openTick) {
			return
		}
	}
}

// probe measures immediate triggers of the first pipeline, one after the other.
func (l *load) probe() {
	if l.options.Family == OSThreads {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
	}
	lease := l.pipelines[0].lease
	ran := make(chan struct{}, 1)
	body := func(*Task) { ran <- struct{}{} }
	for !l.stopped() {
		begin := now()
		t := lease.Schedule(0, body)
		select {
		case <-ran:
			l.gauges[Trip].record(now() - begin)
		case <-l.stopping:
			t.Cancel()
			return
		}
		if gap := l.options.ProbeGap; gap > 0 && !l.sleep(gap) {
			return
		}
	}
}

// saveAll asks for savepoints of one client's share of the pipelines, in turn.
func (l *load) saveAll(client int) {
	save := (*coordinator).savepoint
	if l.options.savepoints() == OutsideSavepoints {
		save = (*coordinator).savepointOutside
	}
	for l.sleep(openTick) { // at least, where no checkpoint is pending
		for i := client; i < len(l.pipelines) && !l.stopped(); i += savepointClients {
			save(l.pipelines[i].coordinator)
		}
	}
}

// stop ends the load: what has not begun is cancelled, what has is waited for.
// The verdict is over everything that was ever scheduled.
func (l *load) stop() recording.Verify {
	close(l.stopping)
	for _, p := range l.pipelines {
		p.coordinator.shutdown()
	}
	l.clients.Wait()
	l.scheduler.Close()
	for _, p := range l.pipelines {
		p.coordinator.stop()
	}
	return l.verdict()
}

// verdict is over all tasks so far. After stop none may be left.
func (l *load) verdict() recording.Verify {
	c := l.scheduler.counts()
	v := recording.Verify{
		Lost:       c.scheduled.Load() - c.ran.Load() - c.cancelled.Load(),
		Duplicated: c.duplicated.Load(),
	}
	for _, p := range l.pipelines {
		v.Reordered += p.overlaps.Load()
		v.Lost += p.broken.Load()
		v.Invalid += p.coordinator.overlaps.Load()
	}
	return judge(v)
}

// judge sets OK by the counts.
func judge(v recording.Verify) recording.Verify {
	v.OK = v.Lost == 0 && v.Duplicated == 0 && v.Reordered == 0 && v.Invalid == 0
	if !v.OK {
		v.Reason = "triggers lost, run twice, or run at the same time"
	}
	return v
}
