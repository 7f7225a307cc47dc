package experiment

import (
	"strings"
	"testing"

	"contend/internal/analyze"
	"contend/internal/workload/listener"
)

func listenerSummary() *Summary {
	return &Summary{Settings: Settings{
		Arms:     []string{listener.ArmC, listener.ArmD, listener.ArmA},
		Workload: map[string]string{"receive": "1000", "locked": "true"},
	}}
}

func TestListenerSentence(t *testing.T) {
	hand := map[string]map[int]handOvers{
		listener.ArmC: {1: {perMessage: 37_000, wakeups: 2, switches: 5.8, wake: 30_000}},
		listener.ArmD: {1: {perMessage: 2200, wakeups: 0.01, switches: 0.03}},
	}
	got := listenerSentence(nil, hand).Here
	for _, want := range []string{"not for locks", "2.00 wake-ups and 5.8 context switches a message → 0.010 and 0.03", "of C's 37 µs a message 30 µs"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

// Each bound has a verdict, and a broken one is found in any run.
func TestListenerBounds(t *testing.T) {
	verdicts := func(hand map[string]map[int]handOvers) string {
		var v []string
		for _, f := range listenerBounds(listenerSummary(), hand) {
			v = append(v, f.Verdict)
		}
		return strings.Join(v, ", ")
	}
	fine := func() map[string]map[int]handOvers {
		return map[string]map[int]handOvers{
			listener.ArmC: {1: {outstanding: 1001, inFlight: 1}, 2: {outstanding: 7, inFlight: 1}},
			listener.ArmD: {1: {outstanding: 1000, inFlight: 4}},
			listener.ArmA: {1: {outstanding: 100_000, inFlight: 4}},
		}
	}
	if got := verdicts(fine()); got != "met, met, met" {
		t.Errorf("kept: %s", got)
	}
	for want, breakIt := range map[string]func(map[string]map[int]handOvers){
		"not met, met, met": func(h map[string]map[int]handOvers) { h[listener.ArmC][2] = handOvers{outstanding: 1, inFlight: 2} },
		"met, not met, met": func(h map[string]map[int]handOvers) { h[listener.ArmD][1] = handOvers{outstanding: 1001} },
		"met, met, not met": func(h map[string]map[int]handOvers) { h[listener.ArmA][1] = handOvers{outstanding: 999} },
	} {
		hand := fine()
		breakIt(hand)
		if got := verdicts(hand); got != want {
			t.Errorf("broken: %s, want %s", got, want)
		}
	}
}

func TestAtLeast(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	for _, test := range []struct {
		e       analyze.Effect
		applies bool
		want    string
	}{
		{analyze.Effect{Center: of(9), Low: of(7.9)}, true, "not met"},
		{analyze.Effect{Center: of(9), Low: of(8.1)}, true, "met"},
		{analyze.Effect{Center: of(9)}, true, "met"},
		{analyze.Effect{}, true, ""},
		{analyze.Effect{Center: of(9)}, false, ""},
	} {
		if got := atLeast(test.e, 8, test.applies); got != test.want {
			t.Errorf("%+v: %q, want %q", test.e, got, test.want)
		}
	}
}
