package experiment

import (
	"fmt"
	"math"

	"contend/internal/analyze"
)

// Bounds of Options.Auto.
const (
	AutoLeast = 10
	AutoMost  = 30
	// AutoWidth is how far an interval may reach to either side of no change, were
	// there none: what the verdict "unchanged" takes.
	AutoWidth = 0.10
)

// Stop says why an experiment with Options.Auto ended before its last pair.
type Stop struct {
	Pairs  int     `json:"pairs"`  // that were made
	Widths []Width `json:"widths"` // at that point
}

// Width is a 95 % interval of candidate ÷ baseline.
type Width struct {
	What string  `json:"what"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// half is the interval's half-width, as a relative change: 0.1 for 0.9…1.1, and
// for any interval whose ends are as far apart by their ratio. So it does not
// depend on where the interval lies.
func (w Width) half() float64 {
	if w.Low <= 0 || math.IsInf(w.High, 0) { // nothing bounds the ratio on that side
		return 1
	}
	r := w.High / w.Low
	return (r - 1) / (r + 1)
}

func (w Width) narrow() bool {
	const rounding = 1e-9
	return w.half() <= AutoWidth+rounding
}

// String gives the width and not the place, by which the decision is not made.
func (w Width) String() string { return fmt.Sprintf("%s ±%.1f %%", w.What, w.half()*100) }

// weigh decides, after a number of whole pairs, whether they are enough.
//
// The rule looks at the width of intervals alone: operations per second, where
// they are counted, and the wait for the lock most waited for must both be
// known to within AutoWidth. It looks at neither p nor the estimate: to stop once a
// difference is significant would find one where there is none far more often
// than the stated one time in twenty.
func (x *execution) weigh(pairs int) error {
	if !x.state.Settings.Auto || pairs < AutoLeast || x.state.Stopped != nil {
		return nil
	}
	r, err := Load(x.Out)
	if err != nil {
		return err
	}
	widths, err := r.widths()
	if err != nil {
		return fmt.Errorf("how sure %d pairs are: %w", pairs, err)
	}
	for _, w := range widths {
		if !w.narrow() {
			return nil
		}
	}
	x.state.Stopped = &Stop{Pairs: pairs, Widths: widths}
	return x.save()
}

// widths are the intervals that the rule goes by: of the lock most waited for
// whichever it is, so that one whose wait is not known at all is not passed over
// for one that happens to be. A lock that one side does not have at all has no
// ratio to be known, however many pairs there are, and is left out.
func (r *Result) widths() ([]Width, error) {
	d, err := r.Diff(analyze.Options{})
	if err != nil {
		return nil, err
	}
	return widthsOf(d), nil
}

func widthsOf(d *analyze.Diff) []Width {
	var widths []Width
	add := func(what string, low, high *float64) {
		w := Width{What: what}
		if low != nil && high != nil {
			w.Low, w.High = *low, *high
		}
		widths = append(widths, w)
	}
	if t := d.Throughput; t != nil {
		add("operations per second", t.Low, t.High)
	}
	var lead *analyze.Row
	for i := range d.Rows {
		row := &d.Rows[i]
		if row.By != analyze.ByLock || row.Verdict == analyze.New || row.Verdict == analyze.Gone {
			continue
		}
		if delay(row) > 0 && (lead == nil || delay(row) > delay(lead)) {
			lead = row
		}
	}
	if lead != nil {
		add("wait for "+lead.Name+" per "+d.Per, lead.Low, lead.High)
	}
	return widths
}

func delay(r *analyze.Row) float64 {
	return float64(r.Baseline.DelayNS) + float64(r.Candidate.DelayNS)
}
