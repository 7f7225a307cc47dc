package pace

import (
	"math"
	"time"

	"contend/internal/recording"
	"contend/internal/student"
)

// Part is what one part of a window brought: a sum over its length. It stands for a
// period of the window, which is its own length for what was observed without a gap.
type Part struct {
	Length, Period time.Duration
	Sum            float64
}

// Weight is how much more than itself a part stands for.
func (p Part) Weight() float64 { return float64(p.Period) / float64(max(p.Length, 1)) }

// Estimate is the sum of a whole window with its 95 % interval, which is unbounded
// where less than two random parts say nothing of how parts vary.
type Estimate struct {
	Value, Low, High float64
}

// Total estimates a window's sum from parts that stand for all of it: each period by
// its own part. The rates of all random parts are taken as draws around one mean,
// which is on the safe side where periods differ more than parts of one would (one
// part a stratum: Cochran, Sampling Techniques, 1977, §5A.12); long periods weigh more,
// so they are as good as fewer alike, (Σp)² ÷ Σp² (Kish, Survey Sampling, 1965). Where
// few parts have most of the waits, their variance is known less well than its degrees
// of freedom say: these are 2σ⁴ ÷ Var(s²), with the kurtosis of the parts (Satterthwaite,
// Biometrics Bulletin 2, 1946). The interval is Student's t on the logarithmic scale, since parts that miss the longest waits are
// skewed towards less. All waits of a part are one observation: they depend on each
// other.
func Total(parts []Part) Estimate {
	var seen, value, drawn, length float64
	n := 0
	for _, p := range parts {
		seen += p.Sum
		value += p.Sum * p.Weight()
		if p.Period > p.Length {
			n++
			drawn += p.Sum * p.Weight()
			length += float64(p.Period)
		}
	}
	e := Estimate{value, value, value}
	switch {
	case n == 1 || len(parts) == 0:
		e.Low, e.High = seen, math.Inf(1)
		return e
	case n == 0 || value == 0:
		return e
	}
	mean := drawn / length
	var sq, fourth, periods float64
	for _, p := range parts {
		if p.Period > p.Length {
			d := p.Sum*p.Weight() - mean*float64(p.Period)
			d *= d * (1 - 1/p.Weight())
			sq += d
			fourth += d * d
			periods += float64(p.Period) * float64(p.Period)
		}
	}
	like := max(length*length/periods, 2)
	excess := max(fourth*like/max(sq*sq, 1)-3, 0)
	df := max(int(2/(2/(like-1)+excess/like)), 1)
	half := student.T975(df) * math.Sqrt(like/(like-1)*sq) / value
	e.Low, e.High = max(value*math.Exp(-half), seen), value*math.Exp(half)
	return e
}

// Describe says for the manifest what parts were observed, whose sums are nanoseconds.
func Describe(parts []Part) *recording.Thinned {
	d := &recording.Thinned{Parts: len(parts)}
	for _, p := range parts {
		d.ObservedNS += p.Length.Nanoseconds()
	}
	e := Total(parts)
	d.DelayNS, d.LowNS = int64(e.Value), int64(e.Low)
	if e.High < math.MaxInt64 {
		d.HighNS = int64(e.High)
	}
	return d
}
