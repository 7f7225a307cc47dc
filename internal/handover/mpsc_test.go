package handover

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMPSCChunkSizes(t *testing.T) {
	for asked, want := range map[int]int{-1: 2, 0: 2, 1: 2, 2: 2, 3: 4, 16: 16, 17: 32, 512: 512} {
		if got := len(NewMPSC[int](asked).head.slots); got != want {
			t.Errorf("NewMPSC(%d): %d slots, want %d", asked, got, want)
		}
	}
}

// Random offers and polls against a slice, over all ways a chunk can wrap, be
// linked and be recycled.
func TestMPSCAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for _, chunkSize := range []int{2, 4, 16} {
		q := NewMPSC[int](chunkSize)
		var model []int
		next := 0
		buf := make([]int, 3*chunkSize)
		for range 3000 {
			switch random.IntN(5) {
			case 0, 1:
				for range random.IntN(2 * chunkSize) {
					q.Offer(next)
					model = append(model, next)
					next++
				}
			case 2:
				n := q.drain(buf[:random.IntN(len(buf)+1)])
				if n > len(model) || !slices.Equal(buf[:n], model[:n]) {
					t.Fatalf("seed %d, chunk %d: drained %v, want %v", seed, chunkSize, buf[:n], model)
				}
				model = model[n:]
			default:
				poll := q.Poll
				if random.IntN(2) == 0 {
					poll = q.RelaxedPoll
				}
				v, ok := poll()
				if ok != (len(model) > 0) || ok && v != model[0] {
					t.Fatalf("seed %d, chunk %d: polled %d, %v, want %v", seed, chunkSize, v, ok, model)
				}
				if ok {
					model = model[1:]
				}
			}
			if q.Len() != len(model) || q.Empty() != (len(model) == 0) {
				t.Fatalf("seed %d, chunk %d: Len %d, Empty %v, want %d", seed, chunkSize, q.Len(), q.Empty(), len(model))
			}
		}
		if s := q.Stats(); s.Links == 0 || s.Links <= s.Grows {
			t.Errorf("seed %d, chunk %d: %d links, %d allocated: no chunk was recycled", seed, chunkSize, s.Links, s.Grows)
		}
	}
}

// While the consumer keeps up, the first chunk is a ring and no other is made.
func TestMPSCStaysInOneChunkWhileTheConsumerKeepsUp(t *testing.T) {
	q := NewMPSC[int](8)
	for i := range 1000 {
		for k := range 7 {
			q.Offer(i + k)
		}
		for k := range 7 {
			if v, ok := q.Poll(); !ok || v != i+k {
				t.Fatalf("Poll() = %d, %v, want %d", v, ok, i+k)
			}
		}
	}
	if s := q.Stats(); s.Links != 0 || s.Grows != 0 {
		t.Errorf("Links, Grows = %d, %d, want 0, 0", s.Links, s.Grows)
	}
}

// A queue that has seen its peak takes no more memory, at any depth below it.
func TestMPSCRecyclesChunks(t *testing.T) {
	q := NewMPSC[*int](16)
	value := new(int)
	swing := func() {
		for range 1000 {
			q.Offer(value)
		}
		for range 1000 {
			q.Poll()
		}
	}
	swing()
	before := q.Stats()
	if allocs := testing.AllocsPerRun(20, swing); allocs != 0 {
		t.Errorf("%v allocations a swing of 1000 elements, want 0", allocs)
	}
	after := q.Stats()
	if after.Grows != before.Grows || after.Links <= before.Links {
		t.Errorf("Grows %d → %d, Links %d → %d: want the former still, the latter up",
			before.Grows, after.Grows, before.Links, after.Links)
	}
	// Neither the chunk in use nor the free ones keep elements alive.
	for c := q.head; c != nil; c = c.next.Load() {
		requireEmptySlots(t, c)
	}
	for c := q.free.Load(); c != nil; c = c.next.Load() {
		requireEmptySlots(t, c)
	}
}

func requireEmptySlots(t *testing.T, c *chunk[*int]) {
	t.Helper()
	for i := range c.slots {
		if c.slots[i].value != nil {
			t.Fatalf("slot %d still holds an element", i)
		}
	}
}

// A producer that has claimed an index and not stored its element yet: the
// queue is not empty, the relaxed poll does not wait for it, the strict does.
func TestMPSCWithAStalledProducer(t *testing.T) {
	q := NewMPSC[int](4)
	index := q.producer.Add(step) - step // what offer does first
	if q.Empty() || q.Len() != 1 {
		t.Errorf("Empty, Len = %v, %d with a claimed element", q.Empty(), q.Len())
	}
	q.Offer(2)
	if v, ok := q.RelaxedPoll(); ok {
		t.Errorf("RelaxedPoll() = %d, true past a stalled producer", v)
	}
	polled := make(chan int)
	started := make(chan struct{})
	go func() {
		close(started)
		v, _ := q.Poll()
		polled <- v
	}()
	<-started
	slot := &q.tail.Load().slots[index/step&q.mask]
	slot.value = 1
	slot.seq.Store(index + step) // and what it does last
	if v := finished(t, "strict poll", polled); v != 1 {
		t.Errorf("Poll() = %d, want 1", v)
	}
	if v, ok := q.Poll(); !ok || v != 2 {
		t.Errorf("Poll() = %d, %v, want 2", v, ok)
	}
}

// A sleeping consumer is not left asleep by a producer stalled in the same way:
// it waits, awake, for the store.
func TestBlockingMPSCWaitsForAStalledProducer(t *testing.T) {
	q := NewBlockingMPSC[int](4)
	index := q.queue.producer.Add(step) - step
	taken := make(chan int)
	started := make(chan struct{})
	go func() {
		close(started)
		buf := make([]int, 4)
		n, _ := q.TakeAll(buf)
		taken <- buf[:n][0]
	}()
	<-started
	slot := &q.queue.tail.Load().slots[index/step&q.queue.mask]
	slot.value = 7
	slot.seq.Store(index + step)
	if v := finished(t, "taker", taken); v != 7 {
		t.Errorf("took %d, want 7", v)
	}
	if s := q.Stats(); s.Waits != 0 {
		t.Errorf("Waits = %d: it slept with an element claimed", s.Waits)
	}
}

func TestMPSCClose(t *testing.T) {
	q := NewMPSC[int](2)
	for i := range 5 {
		q.Offer(i)
	}
	q.Close()
	q.Close()
	if q.Offer(5) {
		t.Error("Offer after Close was accepted")
	}
	for want := range 5 {
		if v, ok := q.Poll(); !ok || v != want {
			t.Errorf("Poll() = %d, %v, want %d", v, ok, want)
		}
	}
	if _, ok := q.Poll(); ok || !q.Empty() || q.Len() != 0 {
		t.Errorf("after draining: polled %v, Empty %v, Len %d", ok, q.Empty(), q.Len())
	}
	if s := q.Stats(); s.Offers != 5 {
		t.Errorf("Offers = %d, want 5", s.Offers)
	}
}

func TestMPSCKeepsEachProducersOrder(t *testing.T) {
	const producers, each = 8, 10_000
	for _, chunkSize := range []int{2, 16, 512} {
		q := NewMPSC[[2]int](chunkSize)
		done := make(chan struct{})
		go func() {
			defer close(done)
			var next [producers]int
			for turn, left := 0, producers*each; left > 0; turn++ {
				v, ok := q.Poll()
				if !ok {
					spin(turn)
					continue
				}
				if left--; v[1] != next[v[0]] {
					t.Errorf("chunk %d, producer %d: got %d, want %d", chunkSize, v[0], v[1], next[v[0]])
				}
				next[v[0]] = v[1] + 1
			}
		}()
		together(t, producers, func(p int) {
			for i := range each {
				q.Offer([2]int{p, i})
			}
		})
		finished(t, "consumer", done)
		if !q.Empty() {
			t.Errorf("chunk %d: %d elements too many", chunkSize, q.Len())
		}
	}
}
