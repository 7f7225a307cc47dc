package pace

import (
	"math"
	"time"

	"contend/internal/student"
)

// Part is what one part of a window brought: a sum over a length of time.
type Part struct {
	Length time.Duration
	Sum    float64
}

// Estimate is the sum of a whole window with its 95 % interval, which is unbounded
// where a single part says nothing of how parts vary.
type Estimate struct {
	Value, Low, High float64
}

// Total estimates a window's sum from parts of it: the ratio of the sums, with
// Student's t for clusters of unequal length (the ratio estimator of Cochran,
// Sampling Techniques, 1977, §6.4, with the finite population correction of the time
// that was seen). All waits of a part are one observation: they depend on each other.
func Total(parts []Part, whole time.Duration) Estimate {
	var length, sum float64
	for _, p := range parts {
		length += float64(p.Length)
		sum += p.Sum
	}
	if length == 0 {
		return Estimate{0, 0, math.Inf(1)}
	}
	n, rate := len(parts), sum/length
	e := Estimate{Value: rate * float64(whole)}
	seen := min(length/float64(whole), 1)
	switch {
	case seen == 1:
		e.Low, e.High = e.Value, e.Value
		return e
	case n < 2:
		e.Low, e.High = sum, math.Inf(1)
		return e
	}
	var sq float64
	for _, p := range parts {
		d := p.Sum - rate*float64(p.Length)
		sq += d * d
	}
	half := student.T975(n-1) * math.Sqrt(float64(n)/float64(n-1)*sq*(1-seen)) / length * float64(whole)
	e.Low, e.High = max(e.Value-half, sum), e.Value+half
	return e
}
