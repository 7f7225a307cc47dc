package ledger

import (
	"fmt"
	"sync/atomic"

	"contend/internal/handover"
	"contend/internal/workload"
)

// A managedLedger is the topic's log as the broker sees it. Everything but
// addAsync and read happens on its executor.
type managedLedger struct {
	adds    handover.Executor        // takes add tasks; by arm, batches them
	exec    *handover.SingleExecutor // the ledger executor; takes responses and wake-ups
	bookies []*bookieClient
	quorum  quorum
	pending opQueue // adds not yet complete, in order
	chain   []*op   // of chainTask; reused
	cursor  *cursor
	cache   entryCache
	fail    func(error)

	spin     int  // multiplications of work an add
	prePin   bool // a completion is a task of its own
	next     uint64
	complete uint64 // entries; they complete in order

	confirmed atomic.Uint64 // entries that may be read: 0…confirmed-1
	_         [56]byte
	added     atomic.Int64 // messages taken from producers; with dispatched, the backlog
}

// addAsync hands one message to the ledger executor. Here every producer
// meets every other.
func (l *managedLedger) addAsync(o *op) error {
	l.added.Add(1)
	if err := l.adds.Execute((*addTask)(o)); err != nil {
		o.free()
		return fmt.Errorf("the ledger refused a message: %w", err)
	}
	return nil
}

// respond hands a bookie's answer to the ledger executor, entry by entry.
func (l *managedLedger) respond(ops []*op) error {
	for _, o := range ops {
		if err := l.exec.ExecuteControl((*responseTask)(o)); err != nil {
			return err
		}
	}
	return nil
}

// addTask writes a message to the bookie as the next entry.
type addTask op

func (t *addTask) Run() {
	o := (*op)(t)
	o.ledger.prepare(o)
	o.ledger.store(o)
}

// prepare makes a message the next entry.
func (l *managedLedger) prepare(o *op) {
	workload.Spin(l.spin)
	o.entry = l.next
	l.next++
	if o.late = l.quorum.write - l.quorum.ack; o.late > 0 {
		o.holds.Store(int32(1 + o.late))
	}
	l.pending.push(o)
}

// store sends an entry to its bookies.
func (l *managedLedger) store(o *op) {
	for i := range l.quorum.write {
		l.bookies[(o.entry+uint64(i))%uint64(len(l.bookies))].append(o)
	}
}

// quorum says how many bookies are sent an entry, and how many must have it
// before it is acknowledged.
type quorum struct{ write, ack int }

// Weight is the message's payload in bytes.
func (t *addTask) Weight() int64 { return int64(len(t.payload)) }

// responseTask takes one bookie's answer for one entry.
type responseTask op

func (t *responseTask) Run() {
	o := (*op)(t)
	o.acks++
	switch l := o.ledger; {
	case o.acks < l.quorum.ack:
		return
	case o.acks > l.quorum.ack:
		o.free()
		return
	case !l.prePin:
		l.completeAdd(o)
		return
	}
	if err := o.ledger.exec.ExecuteControl((*completionTask)(o)); err != nil {
		o.free() // only while shutting down
	}
}

// completionTask completes an add as a task of its own, as brokers did before
// callbacks were pinned to the ledger's thread.
type completionTask op

func (t *completionTask) Run() { t.ledger.completeAdd((*op)(t)) }

// completeAdd completes an entry and those behind it that waited for it: with
// several bookies, answers overtake each other.
func (l *managedLedger) completeAdd(o *op) {
	o.completed = true
	for head := l.pending.head(); head != nil && head.completed; head = l.pending.head() {
		l.pending.pop()
		l.addComplete(head)
	}
}

// addComplete makes an entry readable, acknowledges it to its producer and
// wakes the cursor if it waits for entries.
func (l *managedLedger) addComplete(o *op) {
	if o.entry != l.complete {
		l.fail(fmt.Errorf("entry %d completed where %d was due", o.entry, l.complete))
		return
	}
	l.complete++
	producer, seq := o.producer, o.seq
	l.cache.insert(o)
	l.confirmed.Store(l.complete) // from here on o belongs to the dispatcher
	producer.acknowledge(seq)
	l.notifyCursor()
}

// notifyCursor queues the wake-up of a waiting cursor behind whatever the
// executor already has to do: where one task is queued for each message,
// that is everything published in the meantime.
func (l *managedLedger) notifyCursor() {
	if c := l.cursor; c.waiting.Load() && c.waiting.CompareAndSwap(true, false) {
		if err := l.exec.ExecuteControl(c); err != nil {
			c.waiting.Store(true) // only while shutting down
		}
	}
}

// A cursor is the subscription's reading position. As a task it is its own
// wake-up.
type cursor struct {
	ledger  *managedLedger
	waiting atomic.Bool // no entries left to read; the next completion clears it
	notify  func()      // new entries are available
}

func (c *cursor) Run() { c.notify() }

// wait registers the cursor for a wake-up. It returns false if entries arrived
// meanwhile and the caller should read instead.
func (c *cursor) wait(readPosition uint64) bool {
	c.waiting.Store(true)
	if c.ledger.confirmed.Load() == readPosition {
		return true
	}
	// Whoever clears the flag is the one to go on: the completion, or we.
	return !c.waiting.CompareAndSwap(true, false)
}
