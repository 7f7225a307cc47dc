package analyze

import (
	"fmt"
	"math"
)

// Thresholds of the verdicts.
const (
	alpha     = 0.05
	leastTold = 0.05 // the least change worth a verdict
	sameBand  = 0.10 // unchanged means: surely within ±10 %
)

// rowStats are a row's statistics over pairs.
type rowStats struct {
	pairs   int
	low90   float64 // 90 % interval of the ratio
	high90  float64
	known90 bool
	sd      float64 // of ln ratio
	base    int     // pairs in which the baseline is above zero
	cand    int
	// differences: some pair has a zero, so that differences were tested.
	differences bool
}

// stats fills in a row's change, ratio, interval and p.
func (x *comparison) stats(q *quantity, r *Row) rowStats {
	r.Change = r.Candidate.Value - r.Baseline.Value
	r.Ratio = ratioOf(r.Baseline.Value, r.Candidate.Value)
	b, c := x.pairValues(q)
	s := rowStats{pairs: len(b)}
	for i := range b {
		if b[i] > 0 {
			s.base++
		}
		if c[i] > 0 {
			s.cand++
		}
	}
	switch {
	case s.pairs < minPairs || s.base == 0 && s.cand == 0: // the sums' ratio stays
	case s.base == s.pairs && s.cand == s.pairs:
		x.logStats(b, c, r, &s)
	default:
		x.differenceStats(b, c, r, &s)
	}
	return s
}

// logStats works on d = ln(candidate ÷ baseline).
func (x *comparison) logStats(b, c []float64, r *Row, s *rowStats) {
	d := make([]float64, len(b))
	for i := range b {
		d[i] = math.Log(c[i]) - math.Log(b[i])
	}
	w := walsh(d)
	r.Ratio = new(math.Exp(hodgesLehmann(w)))
	r.Baseline.Median, r.Candidate.Median = new(medianOf(b)), new(medianOf(c))
	if low, high, ok := walshInterval(w, len(d), 0.95); ok {
		r.Low, r.High = new(math.Exp(low)), new(math.Exp(high))
	}
	if low, high, ok := walshInterval(w, len(d), 0.90); ok {
		s.low90, s.high90, s.known90 = math.Exp(low), math.Exp(high), true
	}
	s.sd = stdDev(d)
	r.P = new(signedRank(d))
}

// differenceStats works on candidate − baseline, where a zero has no
// logarithm; the interval is given relative to the mean of the baseline.
func (x *comparison) differenceStats(b, c []float64, r *Row, s *rowStats) {
	d := make([]float64, len(b))
	for i := range b {
		d[i] = c[i] - b[i]
	}
	r.P = new(signedRank(d))
	mean := meanOf(b)
	if mean <= 0 || s.cand == 0 {
		return
	}
	relative := func(diff float64) *float64 { return new(max(1+diff/mean, 0)) }
	w := walsh(d)
	r.Ratio = relative(hodgesLehmann(w))
	if low, high, ok := walshInterval(w, len(d), 0.95); ok {
		r.Low, r.High = relative(low), relative(high)
	}
	for _, p := range []*float64{r.Ratio, r.Low, r.High} {
		if p != nil && math.IsInf(*p, 0) {
			r.Ratio, r.Low, r.High = nil, nil, nil
			break
		}
	}
	s.differences = true
}

// judgeLock gives a lock's row its verdict. m is the number of tests it is
// corrected for.
func (x *comparison) judgeLock(q *quantity, r *Row, s rowStats, tested bool, m int) {
	switch {
	case q.onlyIn(0):
		r.Verdict = Gone
		x.boundAbsent(r, &r.Baseline, 1)
	case q.onlyIn(1):
		r.Verdict = New
		x.boundAbsent(r, &r.Candidate, 0)
	}
	if x.differ != "" {
		r.Tested = false
		if r.P != nil {
			r.P = nil // windows of one process, or too few pairs, test nothing
			if r.Low != nil {
				r.Note = "an interval within the process only: runs of one build differ by more"
			}
		}
		if r.Verdict == "" {
			r.Verdict = Differ
			if !tested {
				r.Verdict = TooRare
			}
		}
		return
	}
	if !tested {
		if r.Verdict == "" {
			r.Verdict = TooRare
		}
		r.P = nil
		return
	}
	r.Tested = true
	if s.differences && r.Verdict == "" {
		r.Note = "zero in some pairs: differences were tested, relative to the baseline's mean"
	}
	if r.PAdjusted == nil {
		r.PAdjusted = r.P // named beforehand: tested alone
	}
	if r.Verdict != "" {
		return
	}
	level := alpha / float64(m)
	if mde, ok := detectable(s.pairs, s.sd, level); ok {
		if v := math.Expm1(mde); !math.IsInf(v, 0) {
			r.MDE = &v
		}
	}
	r.PairsFor = new(pairsFor(math.Log(1+sameBand), s.sd, level))
	r.Verdict = verdictOf(r, s)
}

// judgeOther keeps intervals only: tables other than that of the locks recount
// the same time. A row that a gate named beforehand is tested, alone.
func (x *comparison) judgeOther(r *Row, s rowStats, named bool) {
	if !named || x.differ != "" || r.P == nil {
		r.P = nil
		return
	}
	r.Tested, r.PAdjusted = true, r.P
	r.Verdict = verdictOf(r, s)
}

// verdictOf is the design's table of verdicts, for a tested row.
func verdictOf(r *Row, s rowStats) string {
	if r.Ratio == nil || r.PAdjusted == nil {
		return Inconclusive
	}
	switch {
	case *r.PAdjusted <= alpha && *r.Ratio >= 1+leastTold:
		return Regressed
	case *r.PAdjusted <= alpha && *r.Ratio <= 1-leastTold:
		return Improved
	case s.known90 && s.low90 >= 1-sameBand && s.high90 <= 1+sameBand:
		return Unchanged
	}
	return Inconclusive
}

// onlyIn tells whether a quantity is in every run of one side and in none of
// the other.
func (q *quantity) onlyIn(side int) bool {
	for _, v := range q.cells[side] {
		if v.delay == 0 && v.count == 0 {
			return false
		}
	}
	for _, v := range q.cells[1-side] {
		if v.delay != 0 || v.count != 0 {
			return false
		}
	}
	return true
}

// boundAbsent bounds what a side may hide in which nothing was seen: with 95 %
// confidence fewer than three waits were to be expected (the rule of three,
// Hanley and Lippman-Hand, JAMA 249, 1983), taken as long as the other side's
// mean.
func (x *comparison) boundAbsent(r *Row, present *Value, absent int) {
	var den float64
	for _, rd := range x.sides[absent].runs {
		den += x.denominator(rd)
	}
	if den <= 0 || present.Value <= 0 {
		return
	}
	bound := 3 * present.MeanNS / den
	if absent == 1 {
		r.High = new(bound / present.Value)
		r.Note = fmt.Sprintf("not seen in the candidate: at most %.3g× with 95 %% confidence, waits being as long as the baseline's", *r.High)
	} else if bound > 0 {
		r.Low = new(present.Value / bound)
		r.Note = fmt.Sprintf("not seen in the baseline: at least %.3g× with 95 %% confidence, waits being as long as the candidate's", *r.Low)
	}
}
