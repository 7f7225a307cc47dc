package ledger

import (
	"fmt"
	"sync"

	"contend/internal/handover"
)

// The arm end-to-end keeps together what arrived together, all the way: the
// messages of one read are one chain and one task; a chain goes to the bookies
// under one lock; what one answer of a bookie covers is one response task, whose
// receipts are ranges and whose cursor wake-up is one.

// chainTask adds the messages of one chain.
type chainTask op

func (t *chainTask) Run() {
	o := (*op)(t)
	l := o.ledger
	l.chain = l.chain[:0]
	for ; o != nil; o = o.next {
		l.prepare(o)
		l.chain = append(l.chain, o)
	}
	if l.quorum.write == len(l.bookies) {
		for _, bookie := range l.bookies {
			bookie.appendAll(l.chain)
		}
		return
	}
	for _, o := range l.chain {
		l.store(o)
	}
}

// Weight is the payload of the whole chain in bytes.
func (t *chainTask) Weight() (bytes int64) {
	for o := (*op)(t); o != nil; o = o.next {
		bytes += int64(len(o.payload))
	}
	return bytes
}

// free gives up all messages of the chain.
func (t *chainTask) free() {
	for o := (*op)(t); o != nil; {
		next := o.next
		o.free()
		o = next
	}
}

// addChain hands n messages, linked by next, to the ledger executor.
func (l *managedLedger) addChain(first *op, n int) error {
	l.added.Add(int64(n))
	if err := l.adds.Execute((*chainTask)(first)); err != nil {
		(*chainTask)(first).free()
		return fmt.Errorf("the ledger refused a message: %w", err)
	}
	return nil
}

// groupTask takes a bookie's answer for a group of entries.
type groupTask struct {
	ledger *managedLedger
	ops    []*op
}

var groups = sync.Pool{New: func() any { return new(groupTask) }}

// respondGroup hands a bookie's answer for entries to the ledger executor.
func (l *managedLedger) respondGroup(ops []*op) error {
	g := groups.Get().(*groupTask)
	g.ledger, g.ops = l, append(g.ops[:0], ops...)
	return l.exec.ExecuteControl(g)
}

func (g *groupTask) Run() {
	l := g.ledger
	for i, o := range g.ops {
		g.ops[i] = nil
		o.acks++
		switch {
		case o.acks == l.quorum.ack:
			o.completed = true
		case o.acks > l.quorum.ack:
			o.free()
		}
	}
	g.ledger = nil
	groups.Put(g)
	l.completeGroup()
}

// completeGroup completes whatever is due, with one receipt for each run of
// messages of one producer, and one wake-up of the cursor.
func (l *managedLedger) completeGroup() {
	before := l.complete
	var producer *producerConn
	var run seqRange
	for o := l.pending.head(); o != nil && o.completed; o = l.pending.head() {
		l.pending.pop()
		l.complete++
		if o.producer != producer || o.seq != run.first+uint64(run.count) {
			if producer != nil {
				producer.acknowledgeRange(run)
			}
			producer, run = o.producer, seqRange{first: o.seq}
		}
		run.count++
		l.cache.insert(o) // nobody reads it before confirmed says so
	}
	if l.complete == before {
		return
	}
	l.confirmed.Store(l.complete)
	producer.acknowledgeRange(run)
	l.notifyCursor()
}

// chains puts end-to-end's chains together while a frame is published.
type chains struct {
	first, last *op
	n           int
}

func (c *chains) add(o *op) {
	if c.first == nil {
		c.first = o
	} else {
		c.last.next = o
	}
	c.last = o
	c.n++
}

var (
	_ handover.Weighted = (*chainTask)(nil)
	_ handover.Weighted = (*addTask)(nil)
)
