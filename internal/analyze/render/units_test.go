package render

import (
	"math"
	"testing"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{duration(0), "0 ns"}, {duration(0.5), "0.50 ns"}, {duration(999.4), "999 ns"}, {duration(999.7), "1.00 µs"},
		{duration(101e3), "101 µs"}, {duration(4.1e6), "4.10 ms"}, {duration(12.34e9), "12.3 s"}, {duration(-31e3), "−31.0 µs"}, {duration(7000e9), "7000 s"},
		{durations(101e3, 132e3), "101 → 132 µs"}, {durations(4.1e6, 6e6), "4.10 → 6.00 ms"}, {durations(290e6, 13e3), "290 ms → 13.0 µs"},
		{durations(0, 12e3), "0 → 12.0 µs"}, {durations(0, 0), "0 → 0 ns"},
		{window(3e9), "3 s"}, {window(3.04e9), "3.04 s"}, {window(500e6), "500 ms"},
		{count(0), "0"}, {count(812), "812"}, {count(9999), "9999"}, {count(88100), "88.1k"}, {count(2.643e6), "2.64M"}, {count(0.25), "0.25"},
		{average(nil), notCaptured}, {average(pointer(0.0)), "0"}, {average(pointer(0.01)), "<0.1"}, {average(pointer(8.94)), "8.9"}, {average(pointer(212.3)), "212"},
		{percent(0), "0 %"}, {percent(0.0001), "<0.1 %"}, {percent(0.004), "0.4 %"}, {percent(0.0996), "10 %"}, {percent(0.88), "88 %"}, {percentOf(nil), notCaptured},
		{signed(1.31), "+31"}, {signed(0.901), "−9.9"}, {signed(1), "0"}, {signed(0.05), "−95"}, {signed(0.90 / 327), "−99.7"}, {signed(1e-9), "−99.9"}, {signed(0), "−100"}, {signed(0.9999), "<0.1"}, {signed(1.0001), "<0.1"},
		{times(1.31), "1.31×"}, {times(0.0042), "0.0042×"}, {times(123.4), "123×"},
		{probability(0.0195), "0.019"}, {probability(0.0001), "<0.001"},
		{interval(pointer(0.876), pointer(0.929)), "−12…−7.1"}, {interval(nil, pointer(1.0)), ""},
		{relative(pointer(1.31), nil, nil), "+31 %, interval unknown"}, {relative(pointer(math.NaN()), nil, nil), ""},
		{amount(1500, "ns"), "1.50 µs"}, {amount(1500, "ns/op"), "1.50 µs/op"}, {amount(3, "waits"), "3 waits"},
		{lostCount([]int64{0, 3}), "0 → 3"}, {lostCount([]int64{0, 0}), "0"}, {lostCount([]int64{1234567}), "1234567"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestAxis(t *testing.T) {
	for _, c := range []struct{ low, high, from, to float64 }{
		{88e3, 101e3, 85e3, 105e3}, // close together: not from zero
		{23, 300, 0, 400},
		{5, 5, 4.96, 5.04},
		{0, 0, 0, 1},
	} {
		from, to, tick := axis(c.low, c.high)
		if from > c.low || to < c.high || tick <= 0 || (to-from)/tick > 12 {
			t.Errorf("axis(%g, %g) = %g…%g by %g", c.low, c.high, from, to, tick)
		}
		if math.Abs(from-c.from) > 0.01*c.high || math.Abs(to-c.to) > 0.01*math.Max(c.high, 1) {
			t.Errorf("axis(%g, %g) = %g…%g, want %g…%g", c.low, c.high, from, to, c.from, c.to)
		}
	}
}
