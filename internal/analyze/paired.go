package analyze

import "math"

// Effect is how a quantity differs between the two sides of pairs: the
// Hodges–Lehmann estimate, its 95 % interval and the range of single pairs. A
// nil pointer is what the pairs cannot tell: an interval takes six of them.
type Effect struct {
	Center *float64 `json:"center"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	Min    *float64 `json:"min"`
	Max    *float64 `json:"max"`
	N      int      `json:"n"` // pairs
}

// PairedRatio estimates candidate ÷ baseline from pairs, as the comparison of
// locks does: on logarithms. It is empty when a value is not positive.
func PairedRatio(baseline, candidate []float64) Effect {
	d := make([]float64, min(len(baseline), len(candidate)))
	for i := range d {
		if baseline[i] <= 0 || candidate[i] <= 0 {
			return Effect{N: len(d)}
		}
		d[i] = math.Log(candidate[i] / baseline[i])
	}
	e := effect(d)
	for _, p := range []*float64{e.Center, e.Low, e.High, e.Min, e.Max} {
		if p != nil {
			*p = math.Exp(*p)
		}
	}
	return e
}

// PairedDifference estimates candidate − baseline from pairs.
func PairedDifference(baseline, candidate []float64) Effect {
	d := make([]float64, min(len(baseline), len(candidate)))
	for i := range d {
		d[i] = candidate[i] - baseline[i]
	}
	return effect(d)
}

func effect(d []float64) Effect {
	e := Effect{N: len(d)}
	if len(d) == 0 {
		return e
	}
	w := walsh(d)
	center, least, most := hodgesLehmann(w), w[0], w[len(w)-1] // a value is its own average
	e.Center, e.Min, e.Max = &center, &least, &most
	if low, high, ok := walshInterval(w, len(d), 0.95); ok {
		e.Low, e.High = &low, &high
	}
	return e
}
