package listener

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

// patience bounds waits of the tests; no test measures time.
const patience = 60 * time.Second

// window is long enough for the counters, which are not read at one moment, to
// agree about it.
const window = 20 * time.Millisecond

// small are settings under which a window takes a fraction of a second.
func small(arm string) Options {
	o := Defaults()
	o.Arm = arm
	o.Keys, o.Receive, o.Backlog, o.Callback = 50, 64, 1000, 0
	o.WarmupMessages, o.WindowMessages = 200, 2000
	return o
}

// variants are settings that change the way a message takes.
var variants = map[string]func(*Options){
	"":                       func(*Options) {},
	"goroutines":             func(o *Options) { o.Locked = false },
	"exclusive":              func(o *Options) { o.Subscription = Exclusive },
	"one key":                func(o *Options) { o.Keys = 1 },
	"one listener thread":    func(o *Options) { o.Threads = 1 },
	"receiver queue of one":  func(o *Options) { o.Receive = 1; o.WindowMessages = 500 },
	"three consumers":        func(o *Options) { o.Consumers = 3 },
	"three topics":           func(o *Options) { o.Topics = 3 },
	"parents on goroutines":  func(o *Options) { o.Consumers, o.Topics, o.Locked = 2, 2, false },
	"parent, queue of one":   func(o *Options) { o.Topics, o.Receive, o.WindowMessages = 3, 1, 500 },
	"exclusive, many topics": func(o *Options) { o.Topics, o.Subscription = 5, Exclusive },
	"work":                   func(o *Options) { o.Callback = 20 * time.Microsecond; o.WindowMessages = 500 },
}

func TestEveryArmKeepsItsPromise(t *testing.T) {
	for _, arm := range Info.Arms {
		for name, change := range variants {
			t.Run(arm+" "+name, func(t *testing.T) {
				o := small(arm)
				change(&o)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				r, err := workload.RunOnce(ctx, o.Run, window)
				if err != nil {
					t.Fatal(err)
				}
				checkResult(t, r, o)
			})
		}
	}
}

// checkResult holds a result to the promises once more, by hand.
func checkResult(t *testing.T, r *recording.WorkloadResult, o Options) {
	t.Helper()
	if !r.Verify.OK {
		t.Errorf("verification failed: %+v", r.Verify)
	}
	if r.Operations < o.window() || r.ElapsedNS <= 0 || r.Name != name || r.Arm != o.Arm || r.Settings["receive"] == "" {
		t.Errorf("%+v", r)
	}
	if l := r.Latency["end_to_end"]; l.Count == 0 || l.P50 <= 0 || l.Max < l.P99 {
		t.Errorf("latency %+v", l)
	}
	f := r.Figures
	if r.Executor.Offers == 0 || r.Executor.Tasks == 0 || f[recording.FigureWakeups] == 0 || f[recording.FigureWakeNS] <= 0 || f[FigureSwitches] == 0 {
		t.Errorf("executors %+v, figures %v", r.Executor, f)
	}
	flight, outstanding := f[FigureInFlight], f[FigureOutstanding]
	one := o.Arm == ArmB || o.Arm == ArmC || o.Threads == 1
	if flight < 1 || one && flight > 1 || flight > float64(o.Threads) {
		t.Errorf("%v callbacks in flight", flight)
	}
	switch o.Arm {
	case ArmD, ArmD1, ArmE:
		if outstanding > float64(o.Receive) {
			t.Errorf("%v messages outstanding with a receiver queue of %d", outstanding, o.Receive)
		}
	case ArmA:
		if outstanding > float64(o.Backlog+o.Receive) {
			t.Errorf("%v messages outstanding with a backlog of %d", outstanding, o.Backlog)
		}
	}
}

// Arm A promises no bound, and has none but the backlog that holds I/O.
func TestArmAIsNotBoundedByTheReceiverQueue(t *testing.T) {
	o := small(ArmA)
	o.Callback, o.WindowMessages = 50*time.Microsecond, 10*int64(o.Backlog) // several times through the backlog
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := workload.RunOnce(ctx, o.Run, window)
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, r, o)
	if n := r.Figures[FigureOutstanding]; n <= float64(o.Receive) {
		t.Errorf("at most %v messages outstanding: no more than the receiver queue of %d", n, o.Receive)
	}
	if r.Figures[FigureHeld] == 0 {
		t.Error("I/O was never held")
	}
}

// parallel keys: arms without a gate have several callbacks in flight, D1 one.
func TestKeysRunInParallel(t *testing.T) {
	for arm, several := range map[string]bool{ArmD: true, ArmE: true, ArmA: true, ArmD1: false} {
		o := small(arm)
		o.Callback, o.WindowMessages = 200*time.Microsecond, 1000
		r, err := workload.RunOnce(t.Context(), o.Run, window)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, r, o)
		if n := r.Figures[FigureInFlight]; (n > 1) != several {
			t.Errorf("%s: %v callbacks in flight", arm, n)
		}
	}
}

// E hands over the same messages with fewer tasks.
func TestEHandsOverInRuns(t *testing.T) {
	tasks := map[string]float64{}
	for _, arm := range []string{ArmD, ArmE} {
		o := small(arm)
		r, err := workload.RunOnce(t.Context(), o.Run, window)
		if err != nil {
			t.Fatal(err)
		}
		tasks[arm] = float64(r.Executor.Offers) / float64(r.Operations)
	}
	if tasks[ArmD] < 2 || tasks[ArmE] > 1 { // D's are 3, give or take a queue's worth at the edges
		t.Errorf("tasks a message: D %.2f, want about 3; E %.2f, want under 1", tasks[ArmD], tasks[ArmE])
	}
}

func TestStopsCleanly(t *testing.T) {
	for _, arm := range Info.Arms {
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(t.Context())
		o := small(arm)
		o.Topics, o.WindowMessages = 2, 1<<40 // a window without an end
		failed := make(chan error)
		go func() {
			_, err := workload.RunOnce(ctx, o.Run, 0)
			failed <- err
		}()
		time.Sleep(20 * time.Millisecond) // somewhere in its life; anywhere will do
		cancel()
		select {
		case err := <-failed:
			if err == nil || !strings.Contains(err.Error(), "canceled") {
				t.Errorf("%s: %v", arm, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s does not end", arm)
		}
		for end := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s leaves %d goroutines behind", arm, runtime.NumGoroutine()-before)
			}
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Fatal(err)
	}
	o := Options{Arm: "F", Subscription: "shared", Callback: -1, WindowMessages: -1}
	err := o.Validate()
	for _, want := range []string{"listener: ", "arm", "subscription", "consumers", "topics", "keys", "receive", "listener threads", "callback", "message counts"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
