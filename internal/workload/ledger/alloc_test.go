//go:build !race

package ledger

import (
	"context"
	"runtime"
	"testing"

	"contend/internal/workload"
)

// The broker's path of a message must not allocate, or the collector would be
// what is measured. Pools lose what they hold when it runs: hence not 0.
// (The race detector makes pools lose more.)
func TestBrokerHardlyAllocates(t *testing.T) {
	o := small()
	o.WindowMessages = 100_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := workload.RunOnce(ctx, o.Run, 0) // the broker is this process
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := float64(after.Mallocs-before.Mallocs) / float64(r.Added); got > 0.2 {
		t.Errorf("%.2f allocations a message, start and end included", got)
	}
}
