package analyze

import "contend/internal/recording"

// HandOvers is what an operation costs in hand-overs between threads. Such time
// looks idle, since whoever waits has an empty queue, and no lock explains it.
// Nil is "not known".
type HandOvers struct {
	Wakeups  *float64 `json:"wakeups_per_op"`  // executors that slept on an empty queue and were woken, by the workload's own count
	WokenNS  *float64 `json:"woken_ns_per_op"` // from those wakes until the executor ran
	Switches *float64 `json:"switches_per_op"` // threads taken off the CPU
	ReadyNS  *float64 `json:"ready_ns_per_op"` // threads that were ready and did not run yet
}

// handOvers are a side's; nil where operations are not counted or nothing is known.
func (c *corpus) handOvers(sd *sideData, t Totals) *HandOvers {
	if t.Operations == nil || *t.Operations <= 0 {
		return nil
	}
	var switches, ready int64
	threads := true
	figures := map[string]float64{}
	worked := true
	for _, rd := range sd.runs {
		rows := rd.threads
		if c.profile == recording.OffCPU {
			rows = rd.rows
		}
		threads = threads && len(rows) > 0
		for i := range rows {
			switches, ready = add(switches, rows[i].count), add(ready, rows[i].runq)
		}
		if rd.Workload == nil || rd.Workload.Figures == nil {
			worked = false
			continue
		}
		for name, v := range rd.Workload.Figures {
			figures[name] += v
		}
	}
	per := func(v float64) *float64 { return new(v / float64(*t.Operations)) }
	var h HandOvers
	if threads {
		h.Switches, h.ReadyNS = per(float64(switches)), per(float64(ready))
	}
	if wakeups, ok := figures[recording.FigureWakeups]; ok && worked {
		h.Wakeups, h.WokenNS = per(wakeups), per(figures[recording.FigureWakeNS])
	}
	if h == (HandOvers{}) {
		return nil
	}
	return &h
}
