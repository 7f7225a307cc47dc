package host

import "testing"

func TestChainDependsOnEveryStep(t *testing.T) {
	const a, b = 0x9E3779B97F4A7C15, 0x51C0FFEE51C0FFEE // dense in bits: + and ^ never agree by chance
	x := uint64(1)
	for range 3 * 8 {
		x = (x + a) ^ b
	}
	if got := chain(1, a, b, 3); got != x {
		t.Errorf("chain = %d, want %d: the timed work is not what the formula assumes", got, x)
	}
}

func TestMeasureClockIsPlausible(t *testing.T) {
	got := MeasureClock()
	t.Logf("%.0f dependent operations per microsecond", got)
	// Wide enough for any CPU and for the race detector's build.
	if got < 10 || got > 20000 {
		t.Errorf("clock index %.0f: not the rate of any CPU", got)
	}
}

func BenchmarkMeasureClock(b *testing.B) {
	for b.Loop() {
		MeasureClock()
	}
}
