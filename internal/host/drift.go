package host

import (
	"fmt"
	"math"

	"contend/internal/recording"
)

// Bounds beyond which a window is called disturbed. A comparison calls 5 % a
// change; a turbo clock that nobody fixed reads within about 3 % of itself.
const (
	MaxStealShare = 0.01 // of all CPUs
	MaxBusyOther  = 0.05 // of all CPUs
	MaxClockDrift = 0.05 // relative
)

// Settle fills in after what only two readings can tell: the shares of all CPUs
// that the hypervisor took and that other processes used between them.
func Settle(before, after *recording.HostState) {
	if before == nil || after == nil || !sameBoot(before, after) {
		return
	}
	after.StealShare = share(before, after, grown(before.Steal, after.Steal))
	busy, own := grown(before.Busy, after.Busy), grown(before.BusyOwn, after.BusyOwn)
	if busy == nil || own == nil {
		after.BusyOther = nil
		return
	}
	other := max(*busy-*own, 0) // the two are read a moment apart
	after.BusyOther = share(before, after, &other)
}

// Drift says what disturbed the window between two readings, one line each;
// none means that nothing known did. It does not need Settle.
func Drift(before, after *recording.HostState) []string {
	if before == nil || after == nil {
		return nil
	}
	if !sameBoot(before, after) {
		return []string{"the host was restarted between the two readings"}
	}
	settled := *after
	Settle(before, &settled)
	var warnings []string
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }

	if b, a := before.Throttles, after.Throttles; b != nil && a != nil && *a > *b {
		warn("the CPU throttled %d times for heat", *a-*b)
	}
	if s := settled.StealShare; s != nil && *s > MaxStealShare {
		warn("the hypervisor took %.1f %% of the CPUs (steal; bound %.0f %%)", *s*100, MaxStealShare*100)
	}
	if o := settled.BusyOther; o != nil && *o > MaxBusyOther {
		warn("other processes used %.1f %% of the CPUs (bound %.0f %%)", *o*100, MaxBusyOther*100)
	}
	if b, a := before.ClockIndex, after.ClockIndex; b != nil && a != nil && *b > 0 {
		if d := *a / *b - 1; math.Abs(d) > MaxClockDrift {
			warn("the CPU clock moved by %+.1f %% (bound ±%.0f %%)", d*100, MaxClockDrift*100)
		}
	}
	return warnings
}

func sameBoot(a, b *recording.HostState) bool {
	return a.BootID == b.BootID
}

// grown is the growth of a counter, nil when a side is unknown.
func grown(before, after *float64) *float64 {
	if before == nil || after == nil {
		return nil
	}
	d := *after - *before
	return &d
}

// share divides CPU seconds by those that all CPUs had between two readings.
func share(before, after *recording.HostState, seconds *float64) *float64 {
	wall := grown(before.Uptime, after.Uptime)
	if seconds == nil || wall == nil || *wall <= 0 || after.CPUs < 1 {
		return nil
	}
	v := max(*seconds, 0) / (*wall * float64(after.CPUs))
	return &v
}
