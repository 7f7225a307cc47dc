package gowait

import "contend/bpf"

// counters are the programs' own, summed over the CPUs.
type counters [bpf.GowaitCounterCOUNTERS]int64

// counterNames are the counters as the manifest has them; lost are those that
// mean missing or misplaced data.
var counterNames = [bpf.GowaitCounterCOUNTERS]struct {
	name string
	lost bool
}{
	bpf.GowaitCounterC_ENTERED:           {name: "probe_hits"},
	bpf.GowaitCounterC_LEFT:              {},
	bpf.GowaitCounterC_QUEUES:            {name: "queues"},   // waits begun
	bpf.GowaitCounterC_DEQUEUES:          {name: "dequeues"}, // waits ended
	bpf.GowaitCounterC_RUNS:              {name: "runs"},
	bpf.GowaitCounterC_REQUEUES:          {name: "requeues"}, // woken waiters that lost the lock to another and wait anew
	bpf.GowaitCounterC_EDGE_WAKES:        {name: "waits_open_at_start"},
	bpf.GowaitCounterC_UNMATCHED_WAKES:   {name: "unmatched_wakes", lost: true}, // no room for the goroutine, or it could not be read
	bpf.GowaitCounterC_LOST_STARTS:       {name: "lost_starts", lost: true},     // no room for the goroutine
	bpf.GowaitCounterC_LOST_LOCKS:        {name: "lost_locks", lost: true},      // touches of locks for which there was no room
	bpf.GowaitCounterC_OVERWRITTEN:       {name: "overwritten_starts", lost: true},
	bpf.GowaitCounterC_UNMATCHED_RUNS:    {name: "unmatched_runs"}, // among them all that were woken before the window
	bpf.GowaitCounterC_FAILED_READS:      {name: "failed_reads", lost: true},
	bpf.GowaitCounterC_FAILED_WALKS:      {name: "failed_walks", lost: true},
	bpf.GowaitCounterC_TRUNCATED_STACKS:  {name: "truncated_stacks", lost: true},
	bpf.GowaitCounterC_BROKEN_STACKS:     {name: "broken_stacks", lost: true},
	bpf.GowaitCounterC_LOST_STACKS:       {name: "lost_stacks", lost: true}, // no room for the stack
	bpf.GowaitCounterC_BUSY_SCRATCHES:    {name: "busy_scratches", lost: true},
	bpf.GowaitCounterC_MERGED_ADDRS:      {name: "merged_addresses", lost: true}, // waits whose lock_addr reads 0
	bpf.GowaitCounterC_MERGED_WAKERS:     {name: "merged_wakers", lost: true},    // waits whose waker is not kept: there are too many combinations
	bpf.GowaitCounterC_LOST_WAITS:        {name: "lost_waits", lost: true},       // waits of which only the time is known
	bpf.GowaitCounterC_UNCOUNTED_WAITERS: {name: "uncounted_waiters", lost: true},

	// In bursts:
	bpf.GowaitCounterC_RELEASES:     {name: counterReleases},            // of mutexes, with waiters or a goroutine that is about to wait or to lock
	bpf.GowaitCounterC_HANDOFFS:     {name: counterHandoffs},            // of those, in starvation mode
	bpf.GowaitCounterC_CONTENDED:    {name: counterContended},           // Locks of mutexes that were taken, at the beginning of each burst
	bpf.GowaitCounterC_PARKED:       {name: counterParked},              // of those, that had to wait: the others won by spinning
	bpf.GowaitCounterC_BUSY_LOCKS:   {name: "busy_locks"},               // releases whose time the next one was charged
	bpf.GowaitCounterC_LOST_CHARGES: {name: "lost_charges", lost: true}, // releases for which there was no room
	bpf.GowaitCounterC_LOST_HOPS:    {name: "lost_hops", lost: true},    // of holders' own waits, for which there was no room
	bpf.GowaitCounterC_ROUGH_HOPS:   {name: "rough_hops"},               // of holders' own waits, placed without the log of the lock, which was being written
}

const (
	counterReleases      = "burst_releases"
	counterHandoffs      = "burst_handoffs"
	counterContended     = "burst_contended"
	counterParked        = "burst_parked"
	counterBursts        = "bursts"
	counterSkippedBursts = "skipped_bursts" // they would have cost too much
	counterBurstNS       = "burst_ns"       // their time
)

// counterUnseen counts waits that are known from the locks' own sums only: their
// goroutine was lost, or they were open at both edges of the window.
const counterUnseen = "unseen_waits"

// counterOpenAtEnd counts waits that went on when the window closed.
const counterOpenAtEnd = "waits_open_at_end"

// counterUntimed counts lock instances that are left out of the manifest.
const counterUntimed = "untimed_locks"

// counterUnsettled is 1 when programs were still under way a while after Stop.
const counterUnsettled = "unsettled"

func (c *counters) minus(d *counters) counters {
	var diff counters
	for i := range c {
		diff[i] = c[i] - d[i]
	}
	return diff
}

func (c *counters) manifest() map[string]int64 {
	m := make(map[string]int64)
	for i, spec := range counterNames {
		if spec.name != "" {
			m[spec.name] = c[i]
		}
	}
	return m
}

func lostCounters() []string {
	var names []string
	for _, spec := range counterNames {
		if spec.lost {
			names = append(names, spec.name)
		}
	}
	return append(names, counterUnseen, counterUnsettled, counterUntimed)
}
