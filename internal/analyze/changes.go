package analyze

import (
	"math"

	"contend/internal/recording"
)

// unit is the runs of one replicate of one side.
type unit []*runData

// units are the replicates of both sides: those of the pairs, else all
// processes.
func (x *comparison) units() (b, c []unit) {
	for _, p := range x.pairs {
		b, c = append(b, p[0]), append(c, p[1])
	}
	if len(x.pairs) > 0 {
		return b, c
	}
	all := func(sd *sideData) []unit {
		us := make([]unit, sd.processes)
		for _, rd := range sd.runs {
			us[rd.process] = append(us[rd.process], rd)
		}
		return us
	}
	return all(x.sides[0]), all(x.sides[1])
}

// workloadChanges compares throughput and latency, of the unrecorded windows
// where every run has one, since recording costs.
func (x *comparison) workloadChanges() (throughput *Change, latency []Change) {
	b, c := x.units()
	result := func(rd *runData) *recording.WorkloadResult { return rd.Plain }
	has := func(ok func(*runData) bool) bool {
		for _, us := range [][]unit{b, c} {
			for _, u := range us {
				for _, rd := range u {
					if !ok(rd) {
						return false
					}
				}
			}
		}
		return true
	}
	timed := func(rd *runData) bool { r := result(rd); return r != nil && r.ElapsedNS > 0 && r.Operations > 0 }
	if !has(timed) {
		result = func(rd *runData) *recording.WorkloadResult { return rd.Workload }
	}
	if has(timed) {
		throughput = x.change("throughput", "op/s", b, c, func(u unit) float64 {
			return perSecond(u, func(rd *runData) (ops, ns int64) { r := result(rd); return r.Operations, r.ElapsedNS })
		})
		return throughput, x.latencies(b, c, result)
	}
	if has(func(rd *runData) bool { _, _, ok := rd.Run.operations(); return ok && rd.wall > 0 }) {
		throughput = x.change("throughput", "op/s", b, c, func(u unit) float64 {
			return perSecond(u, func(rd *runData) (ops, ns int64) { ops, _, _ = rd.Run.operations(); return ops, rd.wall })
		})
	}
	return throughput, nil
}

func perSecond(u unit, of func(*runData) (ops, ns int64)) float64 {
	var ops, ns int64
	for _, rd := range u {
		o, n := of(rd)
		ops, ns = add(ops, max(o, 0)), add(ns, n)
	}
	return float64(ops) / (float64(ns) / 1e9)
}

func (x *comparison) latencies(b, c []unit, result func(*runData) *recording.WorkloadResult) (out []Change) {
	quantiles := []struct {
		name string
		of   func(recording.Latency) int64
	}{
		{"p50", func(l recording.Latency) int64 { return l.P50 }},
		{"p99", func(l recording.Latency) int64 { return l.P99 }},
		{"p999", func(l recording.Latency) int64 { return l.P999 }},
	}
	for _, kind := range []string{"publish", "end_to_end"} {
		for _, q := range quantiles {
			known := true
			mean := func(u unit) float64 { // of the windows of one process
				var sum float64
				for _, rd := range u {
					l, ok := result(rd).Latency[kind]
					known = known && ok && l.Count > 0
					sum += float64(q.of(l)) / float64(len(u))
				}
				return sum
			}
			if ch := x.change(kind+" "+q.name, "ns", b, c, mean); known && ch != nil {
				out = append(out, *ch)
			}
		}
	}
	return out
}

// change compares a quantity of replicates: by the pairs' log ratios where
// there are enough, and then its amounts are medians, else by the ratio of means,
// which has no interval.
func (x *comparison) change(name, unitName string, b, c []unit, of func(unit) float64) *Change {
	values := func(us []unit) []float64 {
		v := make([]float64, len(us))
		for i, u := range us {
			v[i] = of(u)
		}
		return v
	}
	vb, vc := values(b), values(c)
	if len(vb) == 0 || len(vc) == 0 {
		return nil
	}
	ch := &Change{Name: name, Unit: unitName, Baseline: meanOf(vb), Candidate: meanOf(vc), N: min(len(vb), len(vc))}
	ch.Ratio = ratioOf(ch.Baseline, ch.Candidate)
	if len(x.pairs) < minPairs {
		return ch
	}
	d := make([]float64, len(vb))
	for i := range vb {
		if vb[i] <= 0 || vc[i] <= 0 {
			return ch
		}
		d[i] = math.Log(vc[i]) - math.Log(vb[i])
	}
	w := walsh(d)
	ch.Ratio = new(math.Exp(hodgesLehmann(w)))
	ch.Baseline, ch.Candidate = medianOf(vb), medianOf(vc)
	if low, high, ok := walshInterval(w, len(d), 0.95); ok {
		ch.Low, ch.High = new(math.Exp(low)), new(math.Exp(high))
	}
	return ch
}
