package ledger

import "testing"

// A dispatcherRig is a dispatcher over a ledger whose entries the test confirms.
type dispatcherRig struct {
	*dispatcher
	t *testing.T
}

func newDispatcherRig(t *testing.T, consumers, readBatch int) *dispatcherRig {
	l := &managedLedger{cache: newEntryCache()}
	d := newDispatcher(l, consumers, readBatch, newBacklogGate(1<<30, &l.added))
	for i := range d.consumers {
		d.consumers[i] = newConsumerConn(nil, nil)
	}
	l.cursor = d.cursor
	return &dispatcherRig{d, t}
}

// confirm makes entries with these keys readable; sequence numbers are the entry's.
func (r *dispatcherRig) confirm(keys ...uint64) {
	l := r.ledger
	for _, key := range keys {
		s := newSlab()
		o := newOp()
		o.ledger, o.slab, o.key, o.entry = l, s, key, l.complete
		o.payload = []byte{byte(l.complete)}
		l.complete++
		l.cache.insert(o)
		l.confirmed.Store(l.complete)
	}
}

// received empties a consumer's outbox and returns the entries in it.
func (r *dispatcherRig) received(consumer int) (entries []byte) {
	b := &r.consumers[consumer].outbox
	for _, o := range b.entries {
		entries = append(entries, o.payload...)
		o.free()
	}
	b.entries = nil
	return entries
}

func (r *dispatcherRig) drain() {
	for r.readMoreEntries() {
	}
}

// keyOf returns a key that the consumer owns.
func (r *dispatcherRig) keyOf(consumer int) uint64 {
	key := uint64(0)
	for r.ranges.owner(keyHash(key)) != consumer {
		key++
	}
	return key
}

func (r *dispatcherRig) expect(consumer int, want string) {
	r.t.Helper()
	if got := string(r.received(consumer)); got != want {
		r.t.Errorf("consumer %d received %q, want %q", consumer, got, want)
	}
}

func TestDispatcherKeepsWithinPermits(t *testing.T) {
	r := newDispatcherRig(t, 2, 100)
	a, b := r.keyOf(0), r.keyOf(1)
	r.confirm(a, a, b, a, b)
	r.drain()
	r.expect(0, "") // no permits, nothing is read
	if r.readPosition != 0 || !r.stalled {
		t.Errorf("read to %d, stalled %v", r.readPosition, r.stalled)
	}
	r.consumerFlow(r.consumers[0], 1)
	r.drain()
	r.expect(0, "\x00")
	r.expect(1, "")
	r.consumerFlow(r.consumers[1], 10)
	r.drain() // what is not consumer 0's goes on; its own wait in replay
	r.expect(0, "")
	r.expect(1, "\x02\x04")
	r.confirm(a)
	r.drain()
	r.consumerFlow(r.consumers[0], 2)
	r.drain()
	r.expect(0, "\x01\x03") // in order, no more than permitted
	r.consumerFlow(r.consumers[0], 5)
	r.drain()
	r.expect(0, "\x05")
	if r.replaying != 0 || r.totalPermits != 12 || r.consumers[0].permits != 4 || r.consumers[1].permits != 8 {
		t.Errorf("replaying %d, permits %d = %d + %d", r.replaying, r.totalPermits, r.consumers[0].permits, r.consumers[1].permits)
	}
	if got := r.gate.out.Load(); got != 6 {
		t.Errorf("%d entries counted as dispatched", got)
	}
}

func TestDispatcherLooksAheadOnlySoFar(t *testing.T) {
	r := newDispatcherRig(t, 2, 10)
	r.lookAhead = 25
	a := r.keyOf(0)
	for range 100 {
		r.confirm(a)
	}
	r.consumerFlow(r.consumers[1], 1000)
	r.drain()
	if r.replaying < 25 || r.replaying >= 25+10 || !r.stalled {
		t.Errorf("%d entries in replay, stalled %v", r.replaying, r.stalled)
	}
	r.consumerFlow(r.consumers[0], 1000)
	r.drain()
	got := r.received(0)
	for i, entry := range got {
		if int(entry) != i {
			t.Fatalf("position %d holds entry %d", i, entry)
		}
	}
	if len(got) != 100 {
		t.Errorf("%d entries received", len(got))
	}
}

func TestCursorWaitsOnceAndIsNotLeftBehind(t *testing.T) {
	r := newDispatcherRig(t, 1, 10)
	r.consumerFlow(r.consumers[0], 100)
	if r.readMoreEntries() || !r.cursor.waiting.Load() {
		t.Fatal("with no entries the cursor must wait")
	}
	// An entry that arrives between the look and the registration.
	r.cursor.waiting.Store(false)
	r.confirm(7)
	if r.cursor.wait(0) || r.cursor.waiting.Load() {
		t.Fatal("the cursor waits although an entry is there")
	}
	r.drain()
	r.expect(0, "\x00")
}

func TestBacklogGateHoldsAndReleases(t *testing.T) {
	l := &managedLedger{}
	g := newBacklogGate(10, &l.added)
	l.added.Store(9)
	g.admit() // below: passes
	l.added.Store(10)
	passed := make(chan struct{})
	go func() { g.admit(); close(passed) }()
	for g.waiting.Load() == 0 {
		select {
		case <-passed:
			t.Fatal("the gate let a producer through at its limit")
		default:
		}
	}
	g.dispatched(1)
	<-passed
	l.added.Store(100)
	done := make(chan struct{})
	go func() { g.admit(); close(done) }()
	g.close()
	<-done
	if got := g.holds.Load(); got < 1 {
		t.Errorf("%d holds counted", got)
	}
}
