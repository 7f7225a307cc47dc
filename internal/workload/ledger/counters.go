package ledger

import (
	"strconv"

	"contend/internal/handover"
	"contend/internal/recording"
	"contend/internal/workload"
)

// counters are what the broker counted since it began.
type counters struct {
	atNS   int64
	single handover.ExecutorStats
	batch  handover.BatchingStats
	holds  int64 // times a producer was held because of the backlog
}

func (b *broker) counters() counters {
	c := counters{
		atNS:   workload.MonotonicNow(),
		single: b.executor.single.Stats(),
		holds:  b.gate.holds.Load(),
	}
	if b.executor.batching != nil {
		c.batch = b.executor.batching.Stats()
	}
	return c
}

// subtract returns what was counted since before.
func (c counters) subtract(before counters) counters {
	d := c
	d.atNS -= before.atNS
	d.single.Offers -= before.single.Offers
	d.single.Tasks -= before.single.Tasks
	d.single.IdleNS -= before.single.IdleNS
	d.batch.Items -= before.batch.Items
	d.batch.Batches -= before.batch.Batches
	d.batch.EmptyBatches -= before.batch.EmptyBatches
	for k := range d.batch.BatchItems {
		d.batch.BatchItems[k] -= before.batch.BatchItems[k]
	}
	d.holds -= before.holds
	return d
}

// fill writes the counts of a window into its result.
func (c counters) fill(r *recording.WorkloadResult) {
	r.Executor = recording.ExecutorCounters{
		Offers:       c.single.Offers,
		Tasks:        c.single.Tasks - c.batch.Batches + c.batch.Items, // a batch is one task to its executor
		Batches:      c.batch.Batches,
		EmptyBatches: c.batch.EmptyBatches,
	}
	for k, n := range c.batch.BatchItems {
		if n == 0 {
			continue
		}
		if r.Executor.BatchItems == nil {
			r.Executor.BatchItems = make(map[string]int64)
		}
		r.Executor.BatchItems[strconv.FormatInt(1<<k, 10)] = n
	}
	if c.atNS > 0 {
		r.BusyShare = 1 - float64(c.single.IdleNS)/float64(c.atNS)
	}
	r.Settings["backlog_holds"] = strconv.FormatInt(c.holds, 10)
}
