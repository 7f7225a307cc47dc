package checkpoint

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"contend/internal/recording"
	"contend/internal/workload"
)

// small are settings under which a window takes a fraction of a second.
func small(arm string) Options {
	o := Defaults()
	o.Arm = arm
	o.Pipelines, o.Interval, o.Window = 20, 50*time.Millisecond, 200*time.Millisecond
	o.Complete = 40 * time.Millisecond
	return o
}

func once(t *testing.T, o Options) *recording.WorkloadResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := workload.RunOnce(ctx, o.Run, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryArmRunsEveryTriggerOnce(t *testing.T) {
	for _, arm := range arms {
		for name, change := range map[string]func(*Options){
			"":           func(*Options) {},
			"goroutines": func(o *Options) { o.Family = Goroutines },
			"open":       func(o *Options) { o.Load = Open; o.Savepoints = NoSavepoints },
			"overloaded": func(o *Options) { o.Body = 20 * time.Millisecond; o.Bound = 2 },
			"mixed":      func(o *Options) { o.Body = 5 * time.Millisecond; o.Bound = 2; o.Fast = 10 },
			"open and overloaded": func(o *Options) {
				o.Load, o.Savepoints, o.Body, o.Bound = Open, NoSavepoints, 20*time.Millisecond, 2
			},
			"back to back": func(o *Options) { o.ProbeGap = 0 },
		} {
			t.Run(arm+" "+name, func(t *testing.T) {
				t.Parallel()
				o := small(arm)
				change(&o)
				if o.savepoints() == LockedSavepoints {
					o.Window = 3 * savepointPoll // they may well stop all dispatch threads for one
				}
				r := once(t, o)
				if !r.Verify.OK {
					t.Errorf("%+v", r.Verify)
				}
				if r.Operations == 0 || r.Latency[Delay].Count == 0 || r.ElapsedNS < int64(o.Window) {
					t.Errorf("%d triggers in %v: %v", r.Operations, time.Duration(r.ElapsedNS), r.Latency)
				}
				if r.Gauges[GaugeScheduler] == 0 && arm != AfterFunc || r.Gauges[GaugeThreads] == 0 {
					t.Errorf("figures %v", r.Gauges)
				}
				if o.bounded() && r.Gauges[GaugeScheduler] > float64(o.bound()+timerThreads) {
					t.Errorf("%v threads, bound %d", r.Gauges[GaugeScheduler], o.bound())
				}
				if (o.Fast > 0) != (r.Latency[FastDelay].Count > 0) {
					t.Errorf("%d fast pipelines: %v", o.Fast, r.Latency[FastDelay])
				}
			})
		}
	}
}

// Past saturation an open load's backlog grows, a closed load's cannot be more
// than a trigger a pipeline.
func TestBacklogOfOpenAndClosedLoads(t *testing.T) {
	for _, load := range []string{Open, Closed} {
		o := small(Shared)
		o.Load, o.Body, o.Bound, o.Window = load, 20*time.Millisecond, 2, 500*time.Millisecond // asked for: 4 times what can be run
		r := once(t, o)
		grown := r.Gauges[GaugeEnd] > r.Gauges[GaugeBegin]+float64(o.Pipelines)
		if grown != (load == Open) {
			t.Errorf("%s: backlog %v → %v", load, r.Gauges[GaugeBegin], r.Gauges[GaugeEnd])
		}
		if load == Closed && r.Gauges[GaugePeak] > float64(o.Pipelines)+1 { // and the probe
			t.Errorf("closed: %v triggers waited, of %d pipelines", r.Gauges[GaugePeak], o.Pipelines)
		}
	}
}

func TestSavepointsAreMade(t *testing.T) {
	for _, arm := range []string{Savepoint, SavepointFixed} {
		o := small(arm)
		o.Window = time.Second
		if r := once(t, o); r.Gauges[GaugeSavepoints] == 0 || !r.Verify.OK {
			t.Errorf("%s: %v savepoints, %+v", arm, r.Gauges[GaugeSavepoints], r.Verify)
		}
	}
}

func TestClosedForm(t *testing.T) {
	o := Defaults()
	o.Arm, o.Pipelines, o.Bound, o.Body = Shared, 500, 8, 20*time.Millisecond
	if got := o.ClosedDelay(); got != 230*time.Millisecond {
		t.Errorf("W = %v", got)
	}
	if got := o.Utilization(); got != 1.25 {
		t.Errorf("utilization %v", got)
	}
	o.Body = 5 * time.Millisecond
	if got := o.ClosedDelay(); got != 0 {
		t.Errorf("below saturation W = %v", got)
	}
}

// conversation starts a run and returns the recorder's end of it.
func conversation(t *testing.T, ctx context.Context, o Options) (*workload.Conversation, <-chan error) {
	t.Helper()
	eventsIn, eventsOut := io.Pipe()
	commandsIn, commandsOut := io.Pipe()
	ran := make(chan error, 1)
	go func() {
		ran <- o.Run(ctx, workload.NewConversation(commandsIn, eventsOut))
		eventsOut.Close()
	}()
	t.Cleanup(func() { eventsIn.Close(); commandsOut.Close() })
	return workload.NewConversation(eventsIn, commandsOut), ran
}

func next(t *testing.T, c *workload.Conversation, want string) workload.Event {
	t.Helper()
	ev, err := c.NextEvent()
	if err != nil || ev.Event != want {
		t.Fatalf("event %+v, %v; want %s", ev, err, want)
	}
	return ev
}

func send(t *testing.T, c *workload.Conversation, cmd string) {
	t.Helper()
	if err := c.Send(workload.Command{Command: cmd}); err != nil {
		t.Fatal(err)
	}
}

func TestConversation(t *testing.T) {
	c, ran := conversation(t, t.Context(), small(Shared))
	if ev := next(t, c, workload.EventWarm); ev.PID == 0 {
		t.Error("no process named")
	}
	var last int64
	for range 2 {
		send(t, c, workload.CommandWindow)
		begin := next(t, c, workload.EventBegin)
		end := next(t, c, workload.EventEnd)
		if begin.MonoNS < last || end.MonoNS <= begin.MonoNS || end.Result == nil || end.Result.Operations == 0 {
			t.Errorf("window %d to %d, after %d: %+v", begin.MonoNS, end.MonoNS, last, end.Result)
		}
		last = end.MonoNS
	}
	send(t, c, workload.CommandStop)
	if ev := next(t, c, workload.EventFinal); !ev.Result.Verify.OK || ev.Result.Latency[Delay].Count == 0 {
		t.Errorf("final %+v", ev.Result)
	}
	if err := receive(t, ran, "the end"); err != nil {
		t.Error(err)
	}
}

func TestStopAtAnyTimeIsClean(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, at := range []string{"", workload.EventWarm, workload.EventBegin} {
		o := small(Savepoint)
		o.Warmup, o.Window = time.Minute, time.Minute
		if at != "" {
			o.Warmup = 0
		}
		c, ran := conversation(t, t.Context(), o)
		if at != "" {
			next(t, c, workload.EventWarm)
		}
		if at == workload.EventBegin {
			send(t, c, workload.CommandWindow)
			next(t, c, workload.EventBegin)
		}
		send(t, c, workload.CommandStop)
		if at == workload.EventBegin {
			next(t, c, workload.EventEnd)
		}
		if ev := next(t, c, workload.EventFinal); ev.Result.Verify.Lost != 0 {
			t.Errorf("stopped at %q: %+v", at, ev.Result.Verify)
		}
		if err := receive(t, ran, "the end"); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "no goroutine left", func() bool { return runtime.NumGoroutine() <= before })
}

func TestInterruptedRunSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c, ran := conversation(t, ctx, small(PerPipeline))
	next(t, c, workload.EventWarm)
	cancel()
	if _, err := c.NextEvent(); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("error event %v", err)
	}
	if err := receive(t, ran, "the end"); err == nil {
		t.Error("no error")
	}
}

func TestValidateNamesEverything(t *testing.T) {
	o := Options{Arm: "x", Load: "y", Family: "z", Savepoints: "w", Pipelines: -1, Fast: -1, Bound: -1, Body: -1, Complete: -1, ProbeGap: -1, Warmup: -1}
	err := o.Validate()
	for _, word := range []string{"arm", "load", "family", "savepoints", "pipelines", "fast", "bound", "interval", "body", "complete", "probe gap", "warmup", "window"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q not in %v", word, err)
		}
	}
	o = Defaults()
	o.Pipelines = 8000
	if o.Validate() == nil {
		t.Error("16,000 OS threads allowed")
	}
	o.Family = Goroutines
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}
