package render

import (
	"testing"

	"contend/internal/analyze"
)

func TestHandOverFact(t *testing.T) {
	c := &analyze.HandOvers{Wakeups: pointer(2.0), WokenNS: pointer(25e3), Switches: pointer(5.8), ReadyNS: pointer(30e3)}
	d := &analyze.HandOvers{Wakeups: pointer(0.01), WokenNS: pointer(200.0), Switches: pointer(0.02), ReadyNS: pointer(900.0)}
	threads := &analyze.HandOvers{Switches: pointer(5.8), ReadyNS: pointer(30e3)}
	for _, test := range []struct {
		sides []*analyze.HandOvers
		want  string
	}{
		{[]*analyze.HandOvers{c}, "hand-overs a message: 2 wake-ups, 5.80 thread switches, woken → running 25.0 µs, ready → running 30.0 µs"},
		{[]*analyze.HandOvers{c, d}, "hand-overs a message: 2 → 0.010 wake-ups, 5.80 → 0.020 thread switches, woken → running 25.0 µs → 200 ns, ready → running 30.0 µs → 900 ns"},
		{[]*analyze.HandOvers{threads, d}, "hand-overs a message: 5.80 → 0.020 thread switches, ready → running 30.0 µs → 900 ns"},
		{[]*analyze.HandOvers{d}, ""}, // too few to be what takes the time
		{[]*analyze.HandOvers{c, nil}, ""},
	} {
		if got := handOverFact("message", test.sides...); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}
