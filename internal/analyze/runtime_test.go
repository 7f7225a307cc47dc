package analyze

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// The contention of these functions is seen by this process's own runtime, so
// that the frames are those of the Go version that builds the tests.

//go:noinline
func waitMutex(mu *sync.Mutex) { mu.Lock(); runtime.Gosched(); mu.Unlock() }

//go:noinline
func waitRead(mu *sync.RWMutex) { mu.RLock(); runtime.Gosched(); mu.RUnlock() }

//go:noinline
func waitWrite(mu *sync.RWMutex) { mu.Lock(); runtime.Gosched(); mu.Unlock() }

//go:noinline
func waitReceive(c chan int) { <-c }

//go:noinline
func waitSend(c chan int) { c <- 1 }

//go:noinline
func waitSelect(c, d chan int) {
	select {
	case <-c:
	case <-d:
	}
}

//go:noinline
func waitCond(c *sync.Cond, ready *bool) {
	c.L.Lock()
	for !*ready {
		c.Wait()
	}
	c.L.Unlock()
}

//go:noinline
func waitGroup(wg *sync.WaitGroup) { wg.Wait() }

// parkedWaiters waits until n goroutines stand in a function, as the runtime's
// own goroutine profile has it.
func parkedWaiters(t *testing.T, fn string, n int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		if bytes.Count(buf, []byte("analyze."+fn+"(")) >= n {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("no %d goroutines got to wait in %s", n, fn)
}

// contendOnce makes each kind of wait happen at least once.
func contendOnce(t *testing.T) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var rw sync.RWMutex
	cond := sync.NewCond(&sync.Mutex{})
	var joined sync.WaitGroup
	joined.Add(1)
	recv, send, sel, never := make(chan int), make(chan int), make(chan int), make(chan int)
	ready := false
	mu.Lock()
	rw.Lock()
	for fn, wait := range map[string]func(){
		"waitMutex": func() { waitMutex(&mu) }, "waitRead": func() { waitRead(&rw) }, "waitWrite": func() { waitWrite(&rw) },
		"waitReceive": func() { waitReceive(recv) }, "waitSend": func() { waitSend(send) },
		"waitSelect": func() { waitSelect(sel, never) }, "waitCond": func() { waitCond(cond, &ready) },
		"waitGroup": func() { waitGroup(&joined) },
	} {
		all.Go(wait)
		parkedWaiters(t, fn, 1)
	}
	time.Sleep(20 * time.Millisecond) // from standing in the function to parked
	mu.Unlock()
	rw.Unlock()
	recv <- 1
	<-send
	sel <- 1
	cond.L.Lock()
	ready = true
	cond.Broadcast()
	cond.L.Unlock()
	joined.Done()
	all.Wait()
}

// TestRealRuntimeProfiles holds the classification to the running Go's own
// block and mutex profiles.
func TestRealRuntimeProfiles(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	contendOnce(t)
	read := func(name string) *profile.Profile {
		var buf bytes.Buffer
		if err := pprof.Lookup(name).WriteTo(&buf, 0); err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(&buf)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	block, mutex := read("block"), read("mutex")
	if ProfileKind(block) != recording.Block || ProfileKind(mutex) != recording.Mutex {
		t.Errorf("taken for %q and %q", ProfileKind(block), ProfileKind(mutex))
	}
	run := Run{Manifest: manifest(1, 0), Profiles: map[string]*profile.Profile{recording.Block: block}}
	c, err := newCorpus([]Side{{Runs: []Run{run}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	c.sides[0].forEach(func(_ *runData, r *row) {
		if f := r.stack.acquirer(); f != nil {
			if _, own, ok := cutLast(f.fn.key, "analyze."); ok {
				seen[own] = r.effectiveClass() + "/" + r.lockKind() + "/" + categoryTitle[r.verdict.category]
			}
		}
	})
	for fn, want := range map[string]string{
		"waitMutex": "lock/mutex/blocked", "waitRead": "lock/rwmutex/blocked", "waitWrite": "lock/rwmutex/blocked",
		"waitReceive": "channel/unknown/hand-off", "waitSend": "channel/unknown/back-pressure", "waitSelect": "select/unknown/hand-off",
		"waitCond": "cond/unknown/hand-off", "waitGroup": "join/waitgroup/blocked",
	} {
		if seen[fn] != want {
			t.Errorf("%s: %q, want %q", fn, seen[fn], want)
		}
	}
	var names []string
	for _, l := range mustReport(t, Options{}, run).Locks {
		names = append(names, l.Name)
		if l.DelayNS <= 0 || len(l.Waiters) == 0 {
			t.Errorf("%+v", l)
		}
	}
	for _, want := range []string{"lock in analyze.waitMutex", "lock in analyze.waitRead", "wait group in analyze.waitGroup"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %q in %q", want, names)
		}
	}
	released := mustReport(t, Options{}, Run{Manifest: manifest(1, 0), Profiles: map[string]*profile.Profile{recording.Mutex: mutex}})
	if len(released.Locks) == 0 || released.Mode != ModeUnlock {
		t.Errorf("%+v", released)
	}
}
