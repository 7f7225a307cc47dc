package render

import (
	"fmt"
	"time"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// The fixture: a broker before and after, made by hand, with figures in the
// proportions of a real one and names as hostile as a binary can make them.

// hostileNames are names that broke some renderer in the field, each with a
// part ("frameNN") that can be searched for.
var hostileNames = []string{
	`frame00<script>window.pwned=1</script>`,
	`frame01</script><script>window.pwned=1</script>`,
	`frame02"onmouseover="window.pwned=1`,
	`frame03'onload='window.pwned=1`,
	`frame04&nbsp;&amp;&lt;`,
	"frame05\x00nul",
	"frame06\x1b[31mesc",
	"frame07\xff\xfeinvalid",
	"frame08;semicolon;frames",
	"frame09\nnewline\r\ttab",
	`frame10|pipe\|backslash`,
	"frame11`backtick``fence",
	"frame12\u202ertl\u2066",
	"frame13\u2028separator\ufffe",
	`frame14]]>cdata<!--comment-->`,
	`frame15[struct { a int; b string }]`,
	`github.com/nats-io/nats-server/v2/server.frame16[go.shape.struct { github.com/x/y.A int; B string }].func1`,
	`frame17 with spaces 12 34`,
	`=frame18(1+1)`,
	`frame19 @team #1 :smile: **bold** _it_ [link](javascript:alert(1))`,
	`frame20\u003cscript\u003e`,
	"frame21\u200bzero\u00a0width",
	"frame22世界日本語の長い名前",
	`frame23${{window.pwned=1}}`,
	`-frame24`,
	`frame25 \x41 escaped`,
}

func pointer[T any](v T) *T { return &v }

func fixtureManifest(version string) *recording.Manifest {
	return &recording.Manifest{
		Schema: 1, Tool: recording.Tool{Version: "v0.1.0", Go: "go1.26.0"},
		Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), DurationNS: 3e9, Ended: recording.EndedDuration,
		Target: recording.Target{Kind: "pid", PID: 4242, Name: "nats-server<b>", BuildID: "abc/def", Module: "github.com/nats-io/nats-server/v2", Version: version, Go: "go1.26.0", CPUNS: 5e9},
		Collectors: []recording.Collector{
			{Name: "waits", Settings: map[string]string{"mode": "all"}, Counters: map[string]int64{"waits": 123456, "stack_failed": 0}},
			{Name: "offcpu", Counters: map[string]int64{"switches": 98765}},
		},
		Skipped: []recording.Skipped{{Name: "mutex", Reason: "the endpoint has no /debug/pprof/mutex (404)"}},
		Host: &recording.HostWindow{
			Before: &recording.HostState{Hostname: "bench<1>", Kernel: "6.12.0", CPUModel: "Example 9 & Sons", CPUs: 2, Governor: "performance", Turbo: pointer(false), Steal: pointer(10.0), CurrentMHz: pointer(2900.0), Load1: pointer(1.5)},
			After:  &recording.HostState{Hostname: "bench<1>", Kernel: "6.12.0", CPUModel: "Example 9 & Sons", CPUs: 2, Governor: "performance", Turbo: pointer(false), Steal: pointer(10.024), CurrentMHz: pointer(2890.0), Load1: pointer(3.5), Celsius: pointer(61.0)},
		},
		Operations: &recording.Operations{Name: "message", Count: 264300},
		Overhead:   &recording.Overhead{ProbeHits: 1234567, BPFRunNS: 21e6, TrapNS: 14e6, Share: 0.007},
	}
}

// fixtureFlame nests the hostile names in two stacks and adds ordinary ones;
// with two sides, some stacks are gone and some are new.
func fixtureFlame(sides int) analyze.Flame {
	leaf := func(name, kind string, a, b float64) *analyze.Node {
		n := &analyze.Node{Name: name, Kind: kind, Values: [2]float64{a, 0}}
		if sides == 2 {
			n.Values[1] = b
		}
		return n
	}
	node := func(name, kind string, children ...*analyze.Node) *analyze.Node {
		n := &analyze.Node{Name: name, Kind: kind, Children: children}
		for _, c := range children {
			n.Values[0] += c.Values[0]
			n.Values[1] += c.Values[1]
		}
		return n
	}
	chain := leaf("sync.(*Mutex).Lock", "std", 13000, 26000)
	for i := len(hostileNames) - 1; i >= 13; i-- {
		chain = node(hostileNames[i], "app", chain)
	}
	var wide []*analyze.Node
	for _, name := range hostileNames[:13] {
		wide = append(wide, node(name, "app", leaf("sync.(*Mutex).Lock", "std", 26000, 26000)))
	}
	root := node("",
		"mark",
		node("github.com/nats-io/nats-server/v2/server.(*client).readLoop", "app",
			node("github.com/nats-io/nats-server/v2/server.(*stream).processInboundMsg", "app",
				leaf("internal/sync.(*Mutex).lockSlow", "runtime", 30_000, 101_000),
				leaf("internal/poll.(*FD).Fsync", "kernel", 0, 31_000)),
			node("server.(*oldPath).gone", "app", leaf("sync.(*Mutex).Lock", "std", 90_000, 0)),
			node("wide", "app", wide...),
			chain),
		leaf("[stack lost]", "mark", 1200, 900))
	return analyze.Flame{Name: "waiters", Title: "waits, by waiter", Unit: map[int]string{1: "ns", 2: "ns/op"}[sides], Sides: sides, Root: root}
}

func fixtureReport(version string, scale float64) *analyze.Report {
	ns := func(v float64) int64 { return int64(v * scale) }
	stream := analyze.Lock{
		Name: "github.com/nats-io/nats-server/v2/server.(*stream).mu", Kind: "rwmutex", Class: "lock",
		DelayNS: ns(267e9), Contentions: 2_640_000, Share: 0.78, WaitingAvg: 8.9 * scale, HeldUpShare: pointer(min(0.61*scale*1.2, 0.88)),
		DelayPerOpNS: pointer(101e3 * scale), RunQueueNS: ns(2e9), Instances: 3, Spread: &analyze.Spread{HottestShare: 0.9, Effective: 1.23}, MeanNS: 101e3 * scale, P50NS: 65536, P99NS: 1 << 20, MaxNS: 41e6, OpenWaits: 4,
		Waiters: []analyze.Site{
			{Site: "github.com/nats-io/nats-server/v2/server.(*stream).processInboundMsg /src/server/stream.go:4120", DelayNS: ns(259e9), Contentions: 2_500_000, Share: 0.97},
			{Site: hostileNames[0] + " /src/x.go:1", DelayNS: ns(8e9), Contentions: 140_000, Share: 0.03}},
		Wakers: []analyze.Site{{Site: hostileNames[10] + " /src/y.go:2", DelayNS: ns(267e9), Contentions: 2_640_000, Share: 1}},
		Histogram: map[int64]int64{1024: 100, 2048: 900, 4096: 12000, 16384: 300000, 32768: 900000, 65536: 1100000, 131072: 300000,
			1048576: 27000},
	}
	stream.HeldInIO = pointer(0.31)
	stream.HolderWaits = []analyze.HolderWait{
		{Holder: "server.(*stream).storeUpdates stream.go:5001", Class: "lock", Lock: hostileNames[8], Blocker: "sync.(*Mutex).Lock", Site: hostileNames[10] + " y.go:2", DelayNS: ns(160e9), Share: 0.6, Low: 0.55, High: 0.65},
		{Holder: "server.(*stream).storeUpdates stream.go:5001", Class: "syscall", Blocker: "os.(*File).Sync", Site: "store.(*log).flush log.go:9", IO: true, DelayNS: ns(83e9), Share: 0.31, Low: 0.28, High: 0.35}}
	stream.Pairs = []analyze.WaitPair{{Waiter: hostileNames[0] + " x.go:1", Waker: hostileNames[10] + " y.go:2", DelayNS: ns(267e9), Contentions: 2_640_000, Share: 1}}
	if scale > 1 {
		stream.Holders = []analyze.Holder{{Site: "server.(*stream).storeUpdates /src/server/stream.go:5001", Share: 0.71, Low: 0.67, High: 0.75}}
		stream.Ceiling = pointer(1.14)
	} else {
		stream.Holders = []analyze.Holder{{Site: "server.(*stream).processJetStreamMsg /src/server/stream.go:4400", Share: 0.44, Low: 0.40, High: 0.48}}
		stream.Ceiling = pointer(1.64)
	}
	r := &analyze.Report{
		Schema: 1, Title: version, Recording: fixtureManifest(version), Runs: 10, Profile: "waits", Mode: "all",
		Totals: analyze.Totals{WallNS: 30e9, WaitNS: ns(7000e9), IdleNS: pointer(ns(6360e9)), BackPressureNS: pointer(ns(90e9)), HandoffNS: pointer(ns(69e9)),
			BlockedNS: ns(344e9), BlockedAppNS: ns(342e9), LockNS: ns(342e9), Contentions: 5_100_000, OpenWaits: 12, Operations: pointer(int64(2_643_000))},
		Goroutines: analyze.Goroutines{Running: pointer(1.7), WaitingCPU: pointer(6.2 * scale), Lock: pointer(11.4 * scale), BackPressure: pointer(3.0 * scale * scale),
			Handoff: pointer(2.3), Runtime: pointer(0.02), Idle: pointer(212 / scale)},
		Locks: []analyze.Lock{stream},
		Chains: []analyze.Chain{{Hops: []analyze.Hop{
			{Name: stream.Name, DelayNS: stream.DelayNS, HolderWait: analyze.HolderWait{Holder: "server.(*stream).storeUpdates stream.go:5001", Class: "lock", Lock: hostileNames[8],
				Blocker: "sync.(*Mutex).Lock", Site: hostileNames[10] + " /src/y.go:2", DelayNS: ns(160e9), Share: 0.6, Low: 0.55, High: 0.65}},
			{Name: hostileNames[8], DelayNS: ns(9e9), HolderWait: analyze.HolderWait{Holder: hostileNames[8] + " y.go:3", Class: "syscall",
				Blocker: "os.(*File).Sync", Site: "store.(*log).flush /src/log.go:9", IO: true, DelayNS: ns(8e9), Share: 0.89, Low: 0.89, High: 0.89}},
		}}, {Cycle: true, Hops: []analyze.Hop{
			{Name: hostileNames[0], DelayNS: ns(1e9), HolderWait: analyze.HolderWait{Class: "lock", Lock: hostileNames[0], DelayNS: ns(2e8), Share: 0.2, Low: 0.2, High: 0.2}},
		}}},
		Boundaries: []analyze.Boundary{
			{Boundary: "github.com/nats-io/nats-server/v2/server.(*stream).processInboundMsg", Blocker: "sync.(*RWMutex).Lock", Caller: "server.(*client).readLoop", Class: "lock", DelayNS: ns(259e9), Contentions: 2_500_000, Share: 0.76}},
		Roots: []analyze.Root{{Name: "github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1", DelayNS: ns(300e9), Contentions: 4_900_000, Share: 0.87}},
		Idle:  []analyze.Elsewhere{{Category: "idle", Rule: "net/http accept", Boundary: "main.serve", Blocker: "net.(*TCPListener).Accept", Class: "io", DelayNS: ns(6000e9), Contentions: 12, WaitingAvg: 200}},
		HandedOver: []analyze.HandedOver{{Boundary: hostileNames[1], Blocker: "runtime.chanrecv1", Category: "idle", Rule: "worker loops", Waker: hostileNames[2] + " z.go:4", Wakes: 1000,
			WaitNS: ns(5e9), RunQueueNS: ns(4e9)}},
		Rules: []analyze.RuleTake{{Rule: "net/http accept", Category: "idle", DelayNS: ns(6000e9), Contentions: 12},
			{Rule: "worker <select>", Category: "idle", DelayNS: ns(360e9), Contentions: 90_000},
			{Rule: "jsOutQ.send", Category: "back-pressure", DelayNS: ns(80e9), Contentions: 70_000}},
		Flames:   []analyze.Flame{fixtureFlame(1)},
		Lost:     map[string]int64{},
		Warnings: []string{},
	}
	for i, name := range hostileNames {
		r.Locks = append(r.Locks, analyze.Lock{Name: name, Kind: "mutex", Class: "lock", DelayNS: ns(float64(60e9 / (i + 1))), Contentions: int64(900_000 / (i + 1)),
			Share: 0.05 / float64(i+1), WaitingAvg: 1.9 / float64(i+1), Instances: 1, MeanNS: 22e3, P50NS: 16384, P99NS: 65536, MaxNS: 2e6,
			Wakers: []analyze.Site{{Site: name, DelayNS: 1e6, Contentions: 3, Share: 1}}})
		r.Boundaries = append(r.Boundaries, analyze.Boundary{Boundary: name, Blocker: name, Caller: name, Class: "lock", DelayNS: int64(1e9 / (i + 1)), Contentions: 100, Share: 0.003})
		r.Roots = append(r.Roots, analyze.Root{Name: name, DelayNS: int64(1e9 / (i + 1)), Contentions: 100, Share: 0.003})
	}
	return r
}

func fixtureDiff() *analyze.Diff {
	a, b := fixtureReport("v2.11", 1), fixtureReport("v2.12", 1.31)
	b.Lost = map[string]int64{"waits.stack_failed": 3}
	b.Warnings = []string{"3 waits without a stack"}
	row := func(by, name string, x, y float64, low, high float64, verdict string) analyze.Row {
		r := analyze.Row{By: by, Name: name, Verdict: verdict, Change: y - x,
			Baseline:  analyze.Value{Value: x, DelayNS: int64(x * 2.6e6), Contentions: 1000, MeanNS: x, WaitingAvg: x / 11e3, HeldUpShare: pointer(0.61)},
			Candidate: analyze.Value{Value: y, DelayNS: int64(y * 2.6e6), Contentions: 1100, MeanNS: y, WaitingAvg: y / 11e3, HeldUpShare: pointer(0.88)}}
		if x > 0 && y > 0 {
			r.Ratio = pointer(y / x)
			r.Low, r.High = pointer(low), pointer(high)
		}
		return r
	}
	stream := row("lock", a.Locks[0].Name, 101e3, 132e3, 1.19, 1.44, analyze.Regressed)
	stream.Tested, stream.P, stream.PAdjusted = true, pointer(0.00195), pointer(0.0195)
	server := row("lock", "github.com/nats-io/nats-server/v2/server.(*Server).mu", 3e3, 4e3, 0.82, 1.61, analyze.Inconclusive)
	server.MDE, server.PairsFor = pointer(0.22), pointer(38)
	d := &analyze.Diff{
		Schema: 1, Baseline: a, Candidate: b, Pairs: 10, Per: "operation", Operation: "message", Verdict: analyze.Regressed,
		Headline: "server.(*stream).mu: 1.31× wait per message",
		Rows: []analyze.Row{
			row("total", "", 120e3, 150e3, 1.12, 1.4, ""),
			stream,
			row("lock", hostileNames[0], 22e3, 23e3, 0.95, 1.08, analyze.Unchanged),
			server,
			row("lock", hostileNames[10], 0, 12e3, 0, 0, analyze.New),
			row("lock", hostileNames[11], 9e3, 0, 0, 0, analyze.Gone),
			row("lock", hostileNames[1], 10, 12, 0.5, 2, analyze.TooRare),
			row("boundary", hostileNames[4], 90e3, 120e3, 1.1, 1.5, ""),
			row("root", hostileNames[9], 90e3, 0, 0, 0, ""),
			row("idle", "", 2.2e6, 2.1e6, 0.9, 1.05, ""),
			row("backpressure", "", 33e3, 100e3, 2.2, 4.1, ""),
			row("handoff", "", 25e3, 24e3, 0.9, 1.1, ""),
			row("runtime", "", 10, 11, 0.5, 2.1, ""),
		},
		Throughput: &analyze.Change{Name: "throughput", Unit: "op/s", Baseline: 88100, Candidate: 79400, Ratio: pointer(0.901), Low: pointer(0.876), High: pointer(0.929), N: 10},
		Latency: []analyze.Change{{Name: "end_to_end p50", Unit: "ns", Baseline: 1.1e6, Candidate: 1.2e6, Ratio: pointer(1.1), Low: pointer(1.0), High: pointer(1.2), N: 10},
			{Name: "end_to_end p99", Unit: "ns", Baseline: 4.1e6, Candidate: 6.0e6, Ratio: pointer(1.46), Low: pointer(1.2), High: pointer(1.7), N: 10}},
		Flames:   []analyze.Flame{fixtureFlame(2)},
		Gate:     []analyze.GateRow{{Expr: "lock:server.(*stream).mu>+10%", Tripped: true, Reason: "+31 % exceeds +10 % and the interval excludes zero"}},
		Lost:     [2]int64{0, 3},
		Warnings: []string{"the candidate lost 3 waits; the baseline none"},
	}
	return d
}

func fixtureExperiment() *Experiment {
	e := &Experiment{Name: "handover", Seed: 42, Protocol: "Fresh processes in random order; 3 s unrecorded, 3 s recorded.",
		Notes: []string{"The goal of the tail gap is met: 290 ms became 13 ms."}}
	for i := range 10 {
		for p, arm := range []string{"baseline", "batched"} {
			x := float64((i*7+p*3)%5) / 100
			r := Run{Pair: i + 1, Position: 1 + (p+i)%2, Arm: arm, Throughput: pointer(88e3 * (1 + x + float64(p)*0.11)), Recorded: pointer(86e3 * (1 + x + float64(p)*0.1)),
				Latency: map[string]recording.Latency{
					"end_to_end": {Count: 1, P50: int64(300e6 / (1 + 12*float64(p))), P99: int64(500e6 / (1 + 12*float64(p)))},
					"publish":    {Count: 1, P50: 11e6, P99: 22e6}},
				LockNSPerOp: pointer(4000 / (1 + 200*float64(p))), Steal: pointer(0.004)}
			if i == 7 && p == 1 {
				r.Excluded = "delivered only 0.93 of what was added <invalid>"
			}
			e.Runs = append(e.Runs, r)
		}
	}
	for i, name := range []string{"batched", "lockfree", "twolane"} {
		f := 1 + 0.11/float64(i+1)
		e.Arms = append(e.Arms, Arm{Name: name, What: fmt.Sprintf("variant %d", i), Changes: []analyze.Change{
			{Name: "throughput", Unit: "op/s", Baseline: 88e3, Candidate: 88e3 * f, Ratio: pointer(f), Low: pointer(f - 0.02), High: pointer(f + 0.02), N: 10},
			{Name: "end_to_end p50", Unit: "ns", Baseline: 300e6, Candidate: 25e6, Ratio: pointer(0.083), Low: pointer(0.07), High: pointer(0.1), N: 10}}})
	}
	return e
}
