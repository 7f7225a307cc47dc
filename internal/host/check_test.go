package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"contend/internal/recording"
)

func verdicts(s *recording.HostState) map[string]string {
	m := map[string]string{}
	for _, f := range Check(s) {
		m[f.Name] = f.Verdict
	}
	return m
}

func TestCheckLaptop(t *testing.T) {
	got := verdicts(Read(fake(t, laptop), 100))
	want := map[string]string{
		"machine": OK, "governor": Warn, "turbo": Warn, "frequency": Warn, "clock": Unknown, "idle states": OK,
		"SMT": Warn, "throttling": Warn, "temperature": Warn, "steal": Unknown, "other load": Unknown,
		"NUMA balancing": OK, "huge pages": Warn, "swap": Warn,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCheckTuned(t *testing.T) {
	s := &recording.HostState{
		CPUModel: "Core i9", CPUs: 4, Virtual: ref(false), Governor: "performance", Turbo: ref(false),
		MinMHz: ref(800.0), MaxMHz: ref(2400.0), ClockIndex: ref(2400.0), IdleState: "C1", IdleExitUS: ref(2.0),
		SMT: ref(false), Throttles: ref(int64(0)), Celsius: ref(50.0), StealShare: ref(0.0), BusyOther: ref(0.01),
		NUMABalancing: ref(false), THP: "madvise", Swappiness: ref(60), Swap: ref(false),
	}
	for _, f := range Check(s) {
		if f.Verdict != OK || f.Value == "" || f.Why != "" || f.Remedy != "" {
			t.Errorf("%+v, want ok", f)
		}
	}
}

func TestCheckEveryWarningHasAReasonAndARemedy(t *testing.T) {
	s := Read(fake(t, laptop), 100)
	s.Virtual, s.StealShare, s.BusyOther, s.Celsius = ref(true), ref(0.2), ref(0.3), nil
	warned := 0
	for _, f := range Check(s) {
		if f.Verdict == Warn {
			warned++
			if f.Why == "" || f.Remedy == "" {
				t.Errorf("%s warns without why or remedy: %+v", f.Name, f)
			}
		}
		if f.Verdict == Unknown && !strings.Contains(f.Why, "virtual machine") {
			t.Errorf("%s: %q does not say why it is unknown", f.Name, f.Why)
		}
	}
	if warned != 10 {
		t.Errorf("%d warnings, want 10", warned)
	}
}

// reading is a host of 2 CPUs at a moment, in seconds since boot.
func reading(uptime, busy, own, steal float64) *recording.HostState {
	return &recording.HostState{BootID: "b", CPUs: 2, Uptime: &uptime, Busy: &busy, BusyOwn: &own, Steal: &steal,
		ClockIndex: ref(4000.0), Throttles: ref(int64(7))}
}

func TestSettle(t *testing.T) {
	before, after := reading(100, 50, 10, 1), reading(110, 62, 18, 1.5)
	Settle(before, after)
	// 20 CPU seconds passed: 12 were busy, 8 of them own; 0.5 were stolen.
	if d := cmp.Diff(ref(0.2), after.BusyOther); d != "" {
		t.Error("other load", d)
	}
	if d := cmp.Diff(ref(0.025), after.StealShare); d != "" {
		t.Error("steal", d)
	}

	unknown := reading(110, 62, 18, 1.5)
	unknown.BusyOwn = nil
	Settle(before, unknown)
	if unknown.BusyOther != nil {
		t.Errorf("other load %v without knowing the own", *unknown.BusyOther)
	}
}

func TestDrift(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*recording.HostState)
		want   string // a part of the only warning; none when empty
	}{
		"quiet":         {func(*recording.HostState) {}, ""},
		"throttled":     {func(s *recording.HostState) { s.Throttles = ref(int64(9)) }, "throttled 2 times"},
		"steal":         {func(s *recording.HostState) { s.Steal = ref(1.4) }, "took 2.0 %"},
		"other load":    {func(s *recording.HostState) { s.Busy = ref(60.0) }, "used 10.0 %"},
		"slower clock":  {func(s *recording.HostState) { s.ClockIndex = ref(3700.0) }, "-7.5 %"},
		"faster clock":  {func(s *recording.HostState) { s.ClockIndex = ref(4300.0) }, "+7.5 %"},
		"clock, a bit":  {func(s *recording.HostState) { s.ClockIndex = ref(4100.0) }, ""},
		"other boot":    {func(s *recording.HostState) { s.BootID = "c" }, "restarted"},
		"nothing known": {func(s *recording.HostState) { *s = recording.HostState{BootID: "b"} }, ""},
	} {
		after := reading(110, 58, 18, 1)
		c.change(after)
		got := Drift(reading(100, 50, 10, 1), after)
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: unexpected %q", name, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
			t.Errorf("%s: %q, want one that says %q", name, got, c.want)
		}
	}
	if got := Drift(nil, reading(1, 1, 1, 1)); got != nil {
		t.Errorf("without a first reading: %q", got)
	}
}
