// Command positions lets one goroutine wait for a lock in each position that a
// lock can have in a program, and prints their stacks with addresses. The
// comment behind a function says what its lock is to be called; "-" that nothing
// tells for certain.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
)

type queue struct {
	name string
	mu   sync.Mutex
	n    int
}

type client struct {
	id    [40]byte
	mu    sync.RWMutex
	queue *queue
	stats struct {
		in int
		mu sync.Mutex
	}
	guard *sync.Mutex
	once  sync.Once
	done  sync.WaitGroup
	log   *os.File
	group singleflight.Group
}

type embedding struct {
	n int
	sync.Mutex
}

type derived struct {
	title string
	embedding
}

type shard struct {
	mu sync.Mutex
	m  map[string]int
	_  [40]byte
}

type cache struct {
	n      int
	shards [8]shard
	slots  [4]struct {
		n  int
		mu sync.Mutex
	}
	locks   [5]sync.Mutex
	dynamic []shard
	bare    []sync.Mutex
	refs    []*shard
}

type table[K comparable, V any] struct {
	hits int
	mu   sync.Mutex
	m    map[K]V
}

var (
	plain    sync.Mutex
	registry struct {
		n  int
		mu sync.Mutex
	}
	grid    [3]shard
	shared  = &queue{name: "shared"}
	onHeap  *queue
	onlyMap sync.RWMutex
)

//go:noinline
func method(q *queue) { q.put() } // main.(*queue).mu

//go:noinline
func (q *queue) put() {
	q.mu.Lock()
	q.n++
	q.mu.Unlock()
}

//go:noinline
func methodNested(c *client) { c.count(1) } // main.(*client).stats.mu

//go:noinline
func (c *client) count(n int) {
	c.stats.mu.Lock()
	c.stats.in += n
	c.stats.mu.Unlock()
}

//go:noinline
func methodPointed(c *client) { c.guarded() } // main.(*client).guard

//go:noinline
func (c *client) guarded() {
	c.guard.Lock()
	c.guard.Unlock()
}

//go:noinline
func methodArray(c *cache) { c.put(3) } // main.(*shard).mu

//go:noinline
func (c *cache) put(i int) {
	c.shards[i].mu.Lock()
	c.shards[i].m = nil
	c.shards[i].mu.Unlock()
}

//go:noinline
func methodOther(c *client) { c.lockOther() } // main.(*queue).mu

//go:noinline
func (c *client) lockOther() {
	lockFor(&c.queue.mu, 2)
}

//go:noinline
func parameter(a int, c *client) { // main.(*client).mu
	c.mu.Lock()
	c.id[a] = 1
	c.mu.Unlock()
}

//go:noinline
func reader(c *client) int { // main.(*client).mu
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.id)
}

//go:noinline
func deferred(q *queue) { // main.(*queue).mu
	defer q.mu.Unlock()
	q.mu.Lock()
	q.n++
}

//go:noinline
func spilled(q *queue, s string) { // main.(*queue).mu
	n := strings.Count(s, "a") + strings.Count(q.name, "b")
	for i := range n {
		s += fmt.Sprint(i)
	}
	q.mu.Lock()
	q.n += len(s)
	q.mu.Unlock()
}

//go:noinline
func behind(c *client) { // main.(*queue).mu
	c.queue.mu.Lock()
	c.queue.mu.Unlock()
}

//go:noinline
func nested(c *client) { // main.(*client).stats.mu
	c.stats.mu.Lock()
	c.stats.in++
	c.stats.mu.Unlock()
}

//go:noinline
func pointed(c *client) { // main.(*client).guard
	c.guard.Lock()
	c.guard.Unlock()
}

//go:noinline
func embedded(e *embedding) { // main.(*embedding).Mutex
	e.Lock()
	e.n++
	e.Unlock()
}

//go:noinline
func promoted(d *derived) { // main.(*embedding).Mutex
	d.Lock()
	d.n++
	d.Unlock()
}

//go:noinline
func throughInterface(l sync.Locker) { // main.(*queue).mu
	l.Lock()
	l.Unlock()
}

//go:noinline
func array(c *cache, i int) { // main.(*shard).mu
	c.shards[i].mu.Lock()
	c.shards[i].m = nil
	c.shards[i].mu.Unlock()
}

//go:noinline
func nameless(c *cache, i int) { // main.(*cache).slots[…].mu
	c.slots[i].mu.Lock()
	c.slots[i].n++
	c.slots[i].mu.Unlock()
}

//go:noinline
func locks(c *cache, i int) { // main.(*cache).locks[…]
	c.locks[i].Lock()
	c.n++
	c.locks[i].Unlock()
}

//go:noinline
func slice(c *cache, i int) { // main.(*shard).mu
	c.dynamic[i].mu.Lock()
	c.dynamic[i].m = nil
	c.dynamic[i].mu.Unlock()
}

//go:noinline
func bare(c *cache, i int) { // main.(*cache).bare[…]
	c.bare[i].Lock()
	c.n++
	c.bare[i].Unlock()
}

//go:noinline
func refs(c *cache, i int) { // main.(*shard).mu
	c.refs[i].mu.Lock()
	c.refs[i].mu.Unlock()
}

//go:noinline
func loop(c *cache) { // main.(*shard).mu
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.m = nil
		s.mu.Unlock()
	}
}

//go:noinline
func handed(c *client) { lockFor(&c.stats.mu, 3) } // main.(*client).stats.mu

//go:noinline
func lockFor(mu *sync.Mutex, n int) {
	for range n {
		mu.Lock()
		mu.Unlock()
	}
}

//go:noinline
func generic(t *table[string, int]) { t.get("x") } // main.(*table[...]).mu

//go:noinline
func (t *table[K, V]) get(k K) V {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hits++
	return t.m[k]
}

//go:noinline
func global() { // main.plain
	plain.Lock()
	plain.Unlock()
}

//go:noinline
func globalField() { // main.registry.mu
	registry.mu.Lock()
	registry.n++
	registry.mu.Unlock()
}

//go:noinline
func globalArray(i int) { // main.grid[…].mu
	grid[i].mu.Lock()
	grid[i].mu.Unlock()
}

//go:noinline
func globalPointer() { // main.(*queue).mu
	onHeap.mu.Lock()
	onHeap.n++
	onHeap.mu.Unlock()
}

//go:noinline
func globalLiteral() { // main.(*queue).mu
	shared.mu.Lock()
	shared.n++
	shared.mu.Unlock()
}

//go:noinline
func once(c *client) { c.once.Do(func() {}) } // main.(*client).once

//go:noinline
func group(c *client) { c.done.Wait() } // main.(*client).done

//go:noinline
func flight(c *client) { c.group.Do("k", func() (any, error) { return nil, nil }) } // main.(*client).group

//go:noinline
func file(c *client) { c.log.Write([]byte("x")) } // main.(*client).log

//go:noinline
func valueOfMethod(q *queue) { // main.(*queue).mu
	lock := q.mu.Lock
	call(lock)
	q.mu.Unlock()
}

//go:noinline
func call(f func()) { f() }

//go:noinline
func switched(q *queue, c *client, n int) { // main.(*queue).mu
	switch n {
	case 0:
		q.n++
	case 1:
		q.n += 2
	case 2:
		q.mu.Lock()
		q.n *= 2
	case 3:
		q.n--
	case 4:
		c.mu.Lock()
	case 5:
		q.n = 7
	case 6:
		c.stats.in++
	case 7:
		c.guard.Lock()
	case 8:
		q.n = len(q.name)
	}
	q.mu.Unlock()
}

// either waits for one of two locks: which one the code does not say.
//
//go:noinline
func either(a *queue, c *client, first bool) { // -
	mu := &a.mu
	if first {
		mu = &c.stats.mu
	}
	mu.Lock()
	mu.Unlock()
}

//go:noinline
func hold(start func(func())) {
	var mu sync.Mutex
	mu.Lock()
	start(func() { captured(&mu) })
	start(func() {
		mu.Lock()
		mu.Unlock()
	})
}

//go:noinline
func captured(mu *sync.Mutex) { // mu in main.hold
	mu.Lock()
	mu.Unlock()
}

func main() {
	debug.SetTraceback("system")
	c := &client{queue: &queue{}, guard: new(sync.Mutex)}
	q, e, d := &queue{name: "q"}, &embedding{}, &derived{}
	ca := &cache{dynamic: make([]shard, 3), bare: make([]sync.Mutex, 3), refs: []*shard{{}, {}}}
	t := &table[string, int]{}
	onHeap = &queue{}
	for _, l := range []sync.Locker{&q.mu, &c.queue.mu, &c.stats.mu, c.guard, e, d, &ca.shards[0].mu, &ca.shards[3].mu,
		&ca.slots[2].mu, &ca.locks[1], &ca.dynamic[1].mu, &ca.bare[2], &ca.refs[1].mu, &t.mu, &plain, &registry.mu,
		&grid[2].mu, &onHeap.mu, &shared.mu, &c.mu} {
		l.Lock()
	}
	started := make(chan bool)
	go c.once.Do(func() { started <- true; select {} })
	<-started
	c.done.Add(1)
	go c.group.Do("k", func() (any, error) { started <- true; select {} })
	<-started
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	c.log = w
	go w.Write(make([]byte, 1<<20)) // fills the pipe and keeps the file's lock
	time.Sleep(20 * time.Millisecond)
	for _, f := range []func(){
		func() { method(q) }, func() { methodNested(c) }, func() { methodPointed(c) }, func() { methodArray(ca) },
		func() { methodOther(c) }, func() { parameter(1, c) }, func() { reader(c) }, func() { deferred(q) },
		func() { spilled(q, "abba") }, func() { behind(c) }, func() { nested(c) }, func() { pointed(c) },
		func() { embedded(e) }, func() { promoted(d) }, func() { throughInterface(&q.mu) }, func() { array(ca, 3) },
		func() { nameless(ca, 2) }, func() { locks(ca, 1) }, func() { slice(ca, 1) }, func() { bare(ca, 2) },
		func() { refs(ca, 1) }, func() { loop(ca) }, func() { handed(c) }, func() { generic(t) }, global, globalField,
		func() { globalArray(2) }, globalPointer, globalLiteral, func() { once(c) }, func() { group(c) },
		func() { file(c) }, func() { flight(c) }, func() { valueOfMethod(q) }, func() { switched(q, c, 2) }, func() { either(q, c, true) },
	} {
		go f()
	}
	go hold(func(f func()) { go f() })
	time.Sleep(50 * time.Millisecond)
	fmt.Printf("main.main %p\n", main)
	syscall.Kill(os.Getpid(), syscall.SIGQUIT) // the runtime prints all stacks
	time.Sleep(time.Minute)
	r.Close()
}
