package analyze

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

func bare(name string, b *builder) Run {
	return Run{Profiles: map[string]*profile.Profile{name: b.p}}
}

// TestTypesAreMatchedByName: order and unit of the sample types do not matter.
func TestTypesAreMatchedByName(t *testing.T) {
	b := newBuilder("other/bytes", "delay/microseconds", "contentions/count")
	b.add("sync.(*Mutex).Lock main.f", nil, 999, 1500, 3)
	r := mustReport(t, Options{}, bare(recording.Block, b))
	if r.Totals.BlockedNS != 1.5e6 || r.Totals.Contentions != 3 {
		t.Errorf("%+v", r.Totals)
	}
	_, err := NewReport(Side{Runs: []Run{bare(recording.Block, newBuilder("alloc_space/bytes", "delay/parsecs"))}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "alloc_space/bytes delay/parsecs") || !strings.Contains(err.Error(), "contentions/count") {
		t.Errorf("the error must name both lists: %v", err)
	}
}

func TestProfileKind(t *testing.T) {
	lock := "sync.(*Mutex).Lock main.f"
	unlock := "sync.(*Mutex).Unlock main.f"
	for want, b := range map[string]*builder{
		recording.Waits:  newWaits().add(lock, nil, 1, 1, 1),
		recording.Block:  newBuilder("contentions/count", "delay/nanoseconds").add(lock, nil, 1, 1),
		recording.Mutex:  newBuilder("contentions/count", "delay/nanoseconds").add(unlock, nil, 1, 1),
		recording.OffCPU: newBuilder("switches/count", "sleeping/nanoseconds", "runqueue/nanoseconds"),
		recording.Fgprof: newBuilder("samples/count", "time/nanoseconds"),
		"":               newBuilder("inuse_space/bytes"),
	} {
		if got := ProfileKind(b.p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMutexProfileSaysWhatItMeans(t *testing.T) {
	run := func(process int, goVersion string) Run {
		b := newBuilder("contentions/count", "delay/nanoseconds").add("sync.(*Mutex).Unlock main.(*store).put@9 main.main@1", nil, 2, 100)
		m := manifest(process, 0)
		m.Target.Go = goVersion
		r := bare(recording.Mutex, b)
		r.Manifest = m
		return r
	}
	r := mustReport(t, Options{}, run(1, "go1.21.5"))
	if r.Mode != ModeUnlock || r.Locks[0].Name != "lock released in main.(*store).put" {
		t.Errorf("mode %s, lock %s", r.Mode, r.Locks[0].Name)
	}
	if !strings.Contains(r.Warnings[0], "charged at Unlock") || !strings.Contains(r.Warnings[0], "before Go 1.22") {
		t.Errorf("%q", r.Warnings)
	}
	d := mustCompare(t, Side{Runs: []Run{run(1, "go1.21.5")}}, Side{Runs: []Run{run(2, "go1.26.8")}}, Options{})
	all := strings.Join(d.Warnings, "\n")
	if !strings.Contains(all, "do not compare") || !strings.Contains(all, "Go versions differ") {
		t.Errorf("%q", d.Warnings)
	}
}

func TestOddProfiles(t *testing.T) {
	block := func() *builder { return newBuilder("contentions/count", "delay/nanoseconds") }
	deep := "sync.(*Mutex).Lock" + strings.Repeat(" main.rec@1", 31)
	for name, c := range map[string]struct {
		b     *builder
		check func(*testing.T, *Report)
	}{
		"dummy delta": {block().add("main.f", nil, 0, 0), func(t *testing.T, r *Report) {
			if r.Warnings[0] != "no contention seen in 10s" || len(r.Locks) != 0 {
				t.Errorf("%q", r.Warnings)
			}
		}},
		"no duration": {func() *builder { b := block().add("main.f", nil, 1, 5); b.p.DurationNanos = 0; return b }(), func(t *testing.T, r *Report) {
			if r.Goroutines.Lock != nil || r.Totals.BlockedNS != 5 {
				t.Errorf("%+v", r.Goroutines)
			}
		}},
		"empty stack": {block().add("", nil, 1, 5), func(t *testing.T, r *Report) {
			if r.Totals.BlockedNS != 5 || r.Boundaries[0].Boundary != markNoApp || r.Boundaries[0].Share != 0 {
				t.Errorf("%+v", r.Boundaries)
			}
		}},
		"negative": {block().add("main.f", nil, -1, -5).add("main.g", nil, 1, 7), func(t *testing.T, r *Report) {
			if r.Totals.WaitNS != 7 || !strings.Contains(strings.Join(r.Warnings, "\n"), "1 samples with negative") {
				t.Errorf("%+v %q", r.Totals, r.Warnings)
			}
		}},
		"cut stack": {block().add(deep, nil, 1, 100e6), func(t *testing.T, r *Report) {
			if r.Roots[0].Name != markTruncated || r.Roots[0].DelayNS != 100e6 || r.Boundaries[0].Boundary != "main.rec" {
				t.Errorf("%+v", r.Roots)
			}
		}},
		"labels and names that are no UTF-8": {block().add("sync.(*Mutex).Lock main.\xff\xfe", labels{"lock": "\xc3\x28"}, 1, 1), func(t *testing.T, r *Report) {
			if r.Locks[0].Name != "\uFFFD(" || r.Boundaries[0].Boundary != "main.\uFFFD" {
				t.Errorf("%q %q", r.Locks[0].Name, r.Boundaries[0].Boundary)
			}
		}},
		"sums beyond 63 bits": {block().add("main.f", nil, 1<<62, 1<<62).add("main.f", nil, 1<<62, 1<<62).add("main.g", nil, 1<<62, 1<<62), func(t *testing.T, r *Report) {
			if r.Totals.BlockedNS <= 0 {
				t.Errorf("%+v", r.Totals)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, mustReport(t, Options{}, bare(recording.Block, c.b))) })
	}
	// An empty last frame (Go 1.23.0 mutex records) is unknown, not blank.
	b := block().add("sync.(*Mutex).Unlock main.f", nil, 1, 9)
	b.p.Sample[0].Location = append(b.p.Sample[0].Location, &profile.Location{ID: 77})
	r := mustReport(t, Options{}, bare(recording.Mutex, b))
	if n := r.Flames[0].Root.Children[0]; n.Name != markUnknown || r.Totals.BlockedNS != 9 {
		t.Errorf("%+v", n)
	}
}

// TestOneCollectorOfManyProfiles: the endpoint's collector is named after all of them.
func TestOneCollectorOfManyProfiles(t *testing.T) {
	r := bare(recording.Block, newBuilder("contentions/count", "delay/nanoseconds").add("sync.(*Mutex).Lock main.f", nil, 1, 1))
	r.Manifest = manifest(1, 0)
	r.Manifest.Collectors = []recording.Collector{{Name: "mutex,block", StartMonoNS: 1e9, EndMonoNS: 4e9}}
	if got := mustReport(t, Options{}, r).Totals.WallNS; got != 3e9 {
		t.Errorf("wall %d, want the collector's own window", got)
	}
}

func TestWallClockSamplerLeavesRunningOut(t *testing.T) {
	b := newBuilder("samples/count", "time/nanoseconds")
	b.add("main.compute main.main", nil, 50, 500)
	b.add("runtime.gopark runtime.semacquire1 sync.runtime_SemacquireMutex sync.(*Mutex).Lock main.f", nil, 10, 100)
	r := mustReport(t, Options{}, bare(recording.Fgprof, b))
	if r.Totals.WaitNS != 100 || r.Totals.BlockedNS != 100 || r.Totals.Contentions != 10 {
		t.Errorf("%+v", r.Totals)
	}
}

func TestOffCPU(t *testing.T) {
	b := newBuilder("switches/count", "sleeping/nanoseconds", "runqueue/nanoseconds")
	b.add("runtime.futex runtime.futexsleep runtime.notesleep runtime.mPark runtime.findRunnable", labels{"state": "blocked"}, 100, 5e9, 1e6)
	b.add("syscall.Syscall syscall.Fsync internal/poll.(*FD).Fsync os.(*File).Sync main.commit", labels{"state": "blocked"}, 10, 2e9, 5e6)
	b.add("main.compute", labels{"state": "preempted"}, 30, 0, 44e6)
	b.add("ep_poll do_epoll_wait internal/runtime/syscall/linux.Syscall6 runtime.netpoll runtime.findRunnable", labels{"state": "blocked", "class": "io"}, 7, 1e9, 0)
	for _, f := range b.p.Function {
		if f.Name == "ep_poll" || f.Name == "do_epoll_wait" {
			f.Filename = "kernel"
		}
	}
	r := mustReport(t, Options{}, bare(recording.OffCPU, b))
	if r.Totals.BlockedNS != 2e9 || *r.Totals.IdleNS != 6e9 || r.Totals.RunQueueNS != 50e6 || r.Totals.Contentions != 117 || r.Totals.HandoffNS != nil {
		t.Errorf("%+v", r.Totals)
	}
	if *r.Goroutines.WaitingCPU != 0.005 || r.Goroutines.Lock != nil || len(r.Locks) != 0 {
		t.Errorf("%+v, locks %+v", r.Goroutines, r.Locks)
	}
	// The kernel's own waits, of threads that do not idle, are drawn as such.
	b.add("anon_pipe_read vfs_read syscall.Syscall internal/poll.(*FD).Read os.(*File).Read main.read", labels{"state": "blocked", "class": "syscall"}, 1, 3e9, 0)
	b.add("ep_poll syscall.Syscall main.poll", labels{"state": "blocked", "class": "syscall"}, 1, 1e9, 0)
	leaves := map[string]string{}
	more := mustReport(t, Options{}, bare(recording.OffCPU, b))
	if *more.Totals.IdleNS != 9e9 {
		t.Errorf("a read of an empty pipe is idle: %d", *more.Totals.IdleNS)
	}
	eachNode(more.Flames[0].Root, func(n *Node) { leaves[n.Name] = n.Kind })
	if leaves["ep_poll"] != KindKernel || leaves["main.poll"] != KindApp {
		t.Errorf("%v", leaves)
	}
	if r.Boundaries[0].Boundary != "main.commit" || r.Boundaries[0].Blocker != "os.(*File).Sync" {
		t.Errorf("%+v", r.Boundaries[0])
	}
}

func TestHoldersAreNotWakers(t *testing.T) {
	waits := newWaits().add(mutexLeaf+" main.wait@1", labels{"class": "lock", "lock_addr": 0x10}, 10, 1000, 0)
	holders := newWaits()
	holders.add("sync.(*Mutex).Unlock main.slow@5", labels{"charge": "held", "lock_addr": 0x10}, 40, 900, 0)
	holders.add("sync.(*Mutex).Unlock main.fast@6", labels{"charge": "held", "lock_addr": 0x10}, 40, 100, 0)
	holders.add("sync.(*Mutex).Unlock main.fast@6", labels{"charge": "woke", "lock_addr": 0x10}, 5, 500, 0)
	r := waitsRun(waits, manifest(1, 0))
	r.Profiles[recording.Holders] = holders.p
	l := mustReport(t, Options{}, r).Locks[0]
	if len(l.Holders) != 2 || l.Holders[0] != (Holder{"main.slow x.go:5", 0.9, 0.9, 0.9}) {
		t.Errorf("holders: %+v", l.Holders)
	}
	if len(l.Wakers) != 1 || l.Wakers[0].Site != "main.fast x.go:6" {
		t.Errorf("wakers: %+v", l.Wakers)
	}
}

// TestWindowsOfOneProcessAreOneReplicate: a report sums them; instances of
// equal address stay one.
func TestWindowsOfOneProcess(t *testing.T) {
	b := func() *builder {
		return newWaits().add(mutexLeaf+" main.f@1", labels{"class": "lock", "lock_addr": 0x10}, 10, 1000, 0)
	}
	same := mustReport(t, Options{}, waitsRun(b(), manifest(1, 10)), waitsRun(b(), manifest(1, 10)))
	if l := same.Locks[0]; l.Instances != 1 || l.DelayNS != 2000 || *same.Totals.Operations != 20 || same.Totals.WallNS != 20e9 {
		t.Errorf("%+v %+v", l, same.Totals)
	}
	fresh := mustReport(t, Options{}, waitsRun(b(), manifest(1, 10)), waitsRun(b(), manifest(2, 10)))
	if l := fresh.Locks[0]; l.Instances != 1 {
		t.Errorf("the lock of a second process is no second instance: %+v", l)
	}
	pair := mustReport(t, Options{}, waitsRun(b().add(mutexLeaf+" main.f@1", labels{"class": "lock", "lock_addr": 0x20}, 1, 1, 0), manifest(1, 10)),
		waitsRun(b(), manifest(2, 10)))
	if l := pair.Locks[0]; l.Instances != 2 {
		t.Errorf("two instances in one of two processes: %+v", l)
	}
}

// TestReleaseSitesJoin: without addresses, what one line of the application
// releases is one lock; one line of the standard library may release many.
func TestReleaseSitesJoin(t *testing.T) {
	w := newWaits()
	add := func(site, waker string) {
		w.add(mutexLeaf+" "+site, labels{"class": "lock", "waker": waker}, 10, 1000, 0)
	}
	add("main.(*store).put@1", "main.(*store).scan x.go:9")
	add("main.(*store).scan@2", "main.(*store).scan x.go:9")
	add("main.other@3", "main.other x.go:4")
	add("main.read@5", "internal/poll.(*FD).readUnlock fd.go:1")
	add("main.write@6", "internal/poll.(*FD).readUnlock fd.go:1")
	r := mustReport(t, Options{}, waitsRun(w, manifest(1, 0)))
	var names []string
	for _, l := range r.Locks {
		names = append(names, l.Name)
	}
	if want := []string{"lock in main.(*store).put +1 site", "lock in main.other", "lock in main.read", "lock in main.write"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestUsageErrors(t *testing.T) {
	run := waitsRun(knownWaits(), manifest(1, 0))
	side := Side{Runs: []Run{run}}
	for name, err := range map[string]error{
		"no runs":           second(NewReport(Side{}, Options{})),
		"no such profile":   second(NewReport(side, Options{Profile: "mutex"})),
		"unknown --by":      second(NewReport(side, Options{By: "lok"})),
		"no operations":     second(Compare(side, side, Options{Per: PerOperation})),
		"bad gate":          second(Compare(side, side, Options{FailOn: []string{"x"}})),
		"one side is empty": second(Compare(side, Side{}, Options{})),
	} {
		if _, ok := err.(*UsageError); !ok {
			t.Errorf("%s: error %v, want a usage error", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestOrderOfSamplesDoesNotMatter: nothing depends on the order of the input or
// of a map.
func TestOrderOfSamplesDoesNotMatter(t *testing.T) {
	marshal := func(reverse bool) []byte {
		b := knownWaits()
		if reverse {
			slices.Reverse(b.p.Sample)
		}
		r := mustReport(t, Options{By: ByFunction}, waitsRun(b, manifest(1, 5)))
		return jsonOf(t, r)
	}
	if a, b := marshal(false), marshal(true); !bytes.Equal(a, b) {
		t.Errorf("%s\n%s", a, b)
	}
}

func FuzzNewReport(f *testing.F) {
	seed := func(b *builder) {
		var buf bytes.Buffer
		if err := b.p.WriteUncompressed(&buf); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	seed(knownWaits())
	seed(newBuilder("switches/count", "sleeping/nanoseconds", "runqueue/nanoseconds").add("main.f", labels{"state": "blocked"}, 1, 2, 3))
	seed(newBuilder("samples/count", "time/nanoseconds").add("runtime.gopark main.f", nil, 1, 2))
	seed(newBuilder("contentions/count", "delay/seconds").add("sync.(*Mutex).Unlock main.f[a main.]b[", labels{"duration": -1, "lock_addr": 5}, 1<<62, 1<<62))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := profile.ParseData(data)
		if err != nil {
			return
		}
		name := ProfileKind(p)
		if name == "" {
			name = recording.Waits
		}
		side := Side{Runs: []Run{{Profiles: map[string]*profile.Profile{name: p}}}}
		r, err := NewReport(side, Options{})
		if err != nil {
			return
		}
		checkJSON(t, r)
		d, err := Compare(side, side, Options{FailOn: []string{"total>+1%"}})
		if err != nil {
			t.Fatal(err)
		}
		checkJSON(t, d)
	})
}
