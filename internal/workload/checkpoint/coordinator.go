package checkpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

// The waits of the coordinator, as in the original.
const (
	pendingRetry  = 500 * time.Millisecond // a trigger that finds a checkpoint pending comes again after this
	savepointPoll = 500 * time.Millisecond // how often a savepoint looks whether the pending checkpoint is done
)

// outcome is what became of a trigger.
type outcome int

const (
	started   outcome = iota // a checkpoint
	deferred                 // one is pending: armed again, sooner
	tooEarly                 // since the last one; not armed again
	notReady                 // the tasks; not armed again
	suspended                // the coordinator is shut down, done, or its schema changes; not armed again
)

// A coordinator triggers the checkpoints of one pipeline.
type coordinator struct {
	interval time.Duration
	barrier  time.Duration // how long the start of a checkpoint waits for its barriers to be sent
	complete time.Duration // from its start until the tasks have acknowledged it; 0 at once
	periodic bool          // check the interval, and arm the next trigger
	arm      func(time.Duration)

	mu   sync.Mutex  // the coordinator lock
	ids  int64       // of checkpoints and savepoints
	acks *time.Timer // of the pending one

	// latest is when the latest checkpoint was created, on the clock of now. A
	// savepoint leaves it alone: in the original the job ends with one.
	latest   atomic.Int64
	pending  atomic.Int32 // checkpoints started and not complete
	ready    atomic.Bool
	changing atomic.Bool // the schema
	shut     atomic.Bool
	overlaps atomic.Int64 // checkpoints started while one was pending: never
	saved    atomic.Int64 // savepoints made
}

// newCoordinator returns a coordinator whose tasks are ready.
func newCoordinator(interval, barrier, complete time.Duration, periodic bool, arm func(time.Duration)) *coordinator {
	c := &coordinator{interval: interval, barrier: barrier, complete: complete, periodic: periodic, arm: arm}
	c.latest.Store(now() - int64(interval))
	c.ready.Store(true)
	return c
}

// trigger is the body of a trigger.
func (c *coordinator) trigger() outcome {
	if c.periodic && now()-c.latest.Load() < int64(c.interval) {
		return tooEarly
	}
	if !c.ready.Load() {
		return notReady
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut.Load() || c.changing.Load() {
		return suspended
	}
	if c.pending.Load() > 0 {
		c.arm(pendingRetry)
		return deferred
	}
	c.latest.Store(now())
	c.start(c.create())
	if c.periodic {
		c.arm(c.interval)
	}
	return started
}

// create begins a checkpoint. The lock is held.
func (c *coordinator) create() (id int64) {
	c.ids++
	return c.ids
}

// start sends the barriers, waits until they are sent, and leaves the
// checkpoint pending. The lock is held, as in the original.
func (c *coordinator) start(id int64) {
	if c.barrier > 0 {
		time.Sleep(c.barrier)
	}
	if c.pending.Add(1) > 1 {
		c.overlaps.Add(1)
	}
	if c.complete == 0 {
		c.acknowledge(id)
		return
	}
	c.acks = time.AfterFunc(c.complete, func() { c.acknowledge(id) })
}

// acknowledge completes a checkpoint. It does without the coordinator lock, as
// the original does.
func (c *coordinator) acknowledge(int64) { c.pending.Add(-1) }

// savepoint starts a savepoint once no checkpoint is pending. It reports false
// if the coordinator was shut down first. As the original, it holds the
// coordinator lock while it sleeps and looks, and so every trigger up.
func (c *coordinator) savepoint() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending.Load() > 0 && !c.shut.Load() {
		time.Sleep(savepointPoll)
	}
	return c.save()
}

// savepointOutside does the same, but sleeps without the lock.
func (c *coordinator) savepointOutside() bool {
	for {
		if done, ok := c.trySavepoint(); done {
			return ok
		}
		time.Sleep(savepointPoll)
	}
}

func (c *coordinator) trySavepoint() (done, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending.Load() > 0 && !c.shut.Load() {
		return false, false
	}
	return true, c.save()
}

// save starts the savepoint. The lock is held.
func (c *coordinator) save() bool {
	if c.shut.Load() {
		return false
	}
	c.start(c.create())
	c.saved.Add(1)
	return true
}

// shutdown ends triggers and savepoints, the waiting ones at their next look.
func (c *coordinator) shutdown() { c.shut.Store(true) }

// stop ends what may still come after all triggers and savepoints have ended.
func (c *coordinator) stop() {
	if c.acks != nil {
		c.acks.Stop()
	}
}
