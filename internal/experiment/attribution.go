package experiment

import (
	"strings"

	"contend/internal/analyze"
)

// attribution is what one run's recording charges to the lock under study.
// Times per operation are ns: 1 ns per message is 1 ms per million messages.
type attribution struct {
	perOp   float64 // wait for the lock, or for all locks where none is studied
	counted bool    // operations were
	unit    string  // one of them: "message"
	addPath float64 // the part met while handing a message over; the rest are responses, wake-ups and the executor itself
	mean    float64 // ns a wait
	waits   int64
	share   float64 // of the blocked time with an application frame
	leads   bool    // no lock was waited for longer
}

// The lock that most workloads are about, and the frames that tell who meets it.
const (
	executorQueue = "executor queue"
	queueRoom     = "internal/handover.(*"
	controlPath   = ".ExecuteControl" // responses and cursor wake-ups come this way
)

// attribute reads the attribution of every done run of a series to a lock, by pair.
func (r *Result) attribute(series, lock string) (map[int]attribution, error) {
	side, err := r.Side(series)
	if err != nil {
		return nil, err
	}
	out := map[int]attribution{}
	for _, run := range side.Runs {
		report, err := analyze.NewReport(analyze.Side{Name: series, Runs: []analyze.Run{run}}, analyze.Options{})
		if err != nil {
			return nil, err
		}
		out[run.Pair] = attributed(report, lock)
	}
	return out, nil
}

// counted tells whether operations were counted in every run, and what one is called.
func counted(runs map[int]attribution) (unit string, ok bool) {
	for _, a := range runs {
		if !a.counted {
			return "", false
		}
		unit = a.unit
	}
	return unit, len(runs) > 0
}

func attributed(r *analyze.Report, studied string) attribution {
	var a attribution
	ops := 1.0
	if n := r.Totals.Operations; n != nil && *n > 0 {
		ops, a.counted, a.unit = float64(*n), true, "operation"
	}
	if m := r.Recording; m != nil && m.Operations != nil {
		a.unit = m.Operations.Name
	}
	for i, l := range r.Locks {
		switch studied {
		case "":
			a.perOp += float64(l.DelayNS) / ops
		case l.Name:
			a.perOp, a.mean, a.waits = float64(l.DelayNS)/ops, l.MeanNS, l.Contentions
			a.share, a.leads = l.Share, i == 0
		}
	}
	for _, b := range r.Boundaries {
		put := strings.Contains(b.Boundary, queueRoom) && strings.HasSuffix(b.Boundary, ").Put")
		if put && b.Class == "lock" && !strings.HasSuffix(b.Caller, controlPath) {
			a.addPath += float64(b.DelayNS) / ops
		}
	}
	return a
}
