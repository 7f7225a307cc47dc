package ledger

import (
	"strings"
	"testing"
	"time"

	"contend/internal/recording"
)

func TestJudgeWindow(t *testing.T) {
	good := recording.WorkloadResult{
		ElapsedNS: int64(2 * time.Second), Added: 200_000, Operations: 199_000,
		InFlight: 10_000, BusyShare: 0.99,
		Latency: map[string]recording.Latency{"publish": {Mean: float64(100 * time.Millisecond)}},
	}
	for name, test := range map[string]struct {
		change func(*recording.WorkloadResult)
		reason string // "" is valid
	}{
		"good":               {func(*recording.WorkloadResult) {}, ""},
		"delivered, edge":    {func(r *recording.WorkloadResult) { r.Operations = 190_000 }, ""},
		"falls behind":       {func(r *recording.WorkloadResult) { r.Operations = 189_000 }, "delivered only 94.5 %"},
		"more than added":    {func(r *recording.WorkloadResult) { r.Operations = 230_000 }, ""},
		"in flight too high": {func(r *recording.WorkloadResult) { r.InFlight = 11_000 }, "Little's law is off by -9.1 %"},
		"in flight too low":  {func(r *recording.WorkloadResult) { r.InFlight = 9_000 }, "Little's law is off by +11.1 %"},
		"nothing in flight":  {func(r *recording.WorkloadResult) { r.InFlight = 0 }, "Little's law"},
		"idle executor":      {func(r *recording.WorkloadResult) { r.BusyShare = 0.94 }, "had work only 94.0 %"},
		"nothing added":      {func(r *recording.WorkloadResult) { r.Added = 0 }, "nothing was added"},
		"lost":               {func(r *recording.WorkloadResult) { r.Verify.Lost = 3 }, "lost 3"},
		"duplicated":         {func(r *recording.WorkloadResult) { r.Verify.Duplicated = 3 }, "duplicated 3"},
		"reordered":          {func(r *recording.WorkloadResult) { r.Verify.Reordered = 3 }, "reordered 3"},
		"invalid":            {func(r *recording.WorkloadResult) { r.Verify.Invalid = 3 }, "invalid 3"},
	} {
		r := good
		test.change(&r)
		v := judgeWindow(r, true)
		if v.OK != (test.reason == "") || !strings.Contains(v.Reason, test.reason) {
			t.Errorf("%s: %+v, want a reason with %q", name, v, test.reason)
		}
	}
	paced := good
	paced.BusyShare = 0.2
	if v := judgeWindow(paced, false); !v.OK {
		t.Errorf("a paced run need not keep the executor busy: %+v", v)
	}
}

func TestFlightMeterIntegrates(t *testing.T) {
	var m flightMeter
	m.add(100, 5)
	m.add(140, 15)
	m.add(150, -20)
	m.add(170, 1)
	// 5 for 40, 20 for 10, none for 20, 1 for 30
	if got, want := m.read(200), int64(5*40+20*10+1*30); got != want {
		t.Errorf("area %d, want %d", got, want)
	}
}

func TestOptionsValidate(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"arm":        func(o *Options) { o.Arm = "fast" },
		"in flight":  func(o *Options) { o.InFlight = o.Producers - 1 },
		"devices":    func(o *Options) { o.Devices = o.InFlight - 1 },
		"payload":    func(o *Options) { o.Payload = headerSize - 1 },
		"work":       func(o *Options) { o.Work = -1 },
		"completion": func(o *Options) { o.Completion = "" },
		"sync":       func(o *Options) { o.Sync = "always" },
		"network":    func(o *Options) { o.Network = "udp" },
		"rate":       func(o *Options) { o.Rate = -1 },
		"quorum":     func(o *Options) { o.WriteQuorum = 2 },
		"ack":        func(o *Options) { o.AckQuorum = 2 },
		"endtoend":   func(o *Options) { o.Arm, o.Completion = EndToEnd, PrePin },
		"batch":      func(o *Options) { o.BatchItems = 0 },
	} {
		o := Defaults()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDedup(t *testing.T) {
	d := newDedup()
	for i, step := range []struct {
		producer int
		seq      uint64
		want     bool
	}{{1, 0, false}, {1, 0, true}, {2, 0, false}, {1, 1, false}, {1, 0, true}, {1, 5, false}, {1, 4, true}, {2, 1, false}} {
		if got := d.isDuplicate(step.producer, step.seq); got != step.want {
			t.Errorf("step %d: duplicate is %v", i, got)
		}
	}
}
