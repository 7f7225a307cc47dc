package workload

import "golang.org/x/sys/unix"

// MonotonicNow reads CLOCK_MONOTONIC, which all processes of a host share, in ns.
func MonotonicNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot happen: the clock always exists
	}
	return ts.Nano()
}
