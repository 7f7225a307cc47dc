package gowait

import "contend/bpf"

// parkCounters are those of the parks' programs, summed over the CPUs.
type parkCounters [bpf.GoparksCounterCOUNTERS]int64

// parkCounterNames are the counters as the manifest has them; lost are those that
// mean missing or misplaced data.
var parkCounterNames = [bpf.GoparksCounterCOUNTERS]struct {
	name string
	lost bool
}{
	bpf.GoparksCounterC_ENTERED:          {name: "park_probe_hits"},
	bpf.GoparksCounterC_LEFT:             {},
	bpf.GoparksCounterC_PARKS:            {name: "parks"}, // waits begun
	bpf.GoparksCounterC_WAKES:            {name: "wakes"}, // waits ended
	bpf.GoparksCounterC_RUNS:             {name: "park_runs"},
	bpf.GoparksCounterC_ABORTED_PARKS:    {name: "aborted_parks"}, // went on at once: what they waited for had come
	bpf.GoparksCounterC_EDGE_WAKES:       {name: "parks_open_at_start"},
	bpf.GoparksCounterC_UNMATCHED_WAKES:  {name: "park_unmatched_wakes", lost: true},
	bpf.GoparksCounterC_LOST_PARKS:       {name: "lost_parks", lost: true}, // no room for the goroutine
	bpf.GoparksCounterC_OVERWRITTEN:      {name: "park_overwritten_starts", lost: true},
	bpf.GoparksCounterC_FAILED_READS:     {name: "park_failed_reads", lost: true},
	bpf.GoparksCounterC_FAILED_WALKS:     {name: "park_failed_walks", lost: true},
	bpf.GoparksCounterC_TRUNCATED_STACKS: {name: "park_truncated_stacks", lost: true},
	bpf.GoparksCounterC_BROKEN_STACKS:    {name: "park_broken_stacks", lost: true},
	bpf.GoparksCounterC_LOST_STACKS:      {name: "park_lost_stacks", lost: true},
	bpf.GoparksCounterC_BUSY_SCRATCHES:   {name: "park_busy_scratches", lost: true},
	bpf.GoparksCounterC_LOST_WAITS:       {name: "park_lost_waits", lost: true}, // waits of which only reason and time are known
	bpf.GoparksCounterC_CUT_LISTS:        {name: "park_cut_lists", lost: true},  // goroutines made ready at once, beyond the bound
}

// Counters that no program counts.
const (
	counterParksOpen      = "parks_open_at_end"
	counterParksUnsettled = "park_unsettled"
)

func (c *parkCounters) minus(d *parkCounters) parkCounters {
	var diff parkCounters
	for i := range c {
		diff[i] = c[i] - d[i]
	}
	return diff
}

// addTo adds the counters to a manifest's.
func (c *parkCounters) addTo(m map[string]int64) {
	for i, spec := range parkCounterNames {
		if spec.name != "" {
			m[spec.name] += c[i]
		}
	}
}

func lostParkCounters() []string {
	var names []string
	for _, spec := range parkCounterNames {
		if spec.lost {
			names = append(names, spec.name)
		}
	}
	return append(names, counterParksUnsettled)
}
