package experiment

import (
	"fmt"
	"strings"
	"time"

	"contend/internal/analyze/render"
)

// reportDone writes the line of a run that is done.
func (x *execution) reportDone(run *Slot) {
	line := x.where(run) + "done"
	if run.Overhead != nil {
		line += fmt.Sprintf(", recorded at %.2f × the unrecorded rate", *run.Overhead)
	}
	if len(run.Disturbed) > 0 {
		line += "; disturbed: " + strings.Join(run.Disturbed, ", ")
	}
	if left := timeLeft(x.state.planned()); left > 0 {
		most := ""
		if x.state.Settings.Auto {
			most = "at most "
		}
		line += fmt.Sprintf("; %sabout %v left", most, left)
	}
	fmt.Fprintln(x.Progress, line)
}

// reportFailed writes the line of an attempt that will be repeated.
func (x *execution) reportFailed(run *Slot, a Attempt) {
	fmt.Fprintf(x.Progress, "%s%s, will be repeated: %s\n", x.where(run), a.Outcome, render.Clean(a.Reason))
}

func (x *execution) where(run *Slot) string {
	total := len(x.state.planned())
	return fmt.Sprintf("[%*d/%d] pair %d of %d, %s: ", len(fmt.Sprint(total)), run.Order, total, run.Pair, x.state.Settings.Pairs, run.Series)
}

// timeLeft extrapolates from the runs that are done, failed attempts included,
// since there will be more of those too.
func timeLeft(runs []Slot) time.Duration {
	spent, done := time.Duration(0), 0
	for _, r := range runs {
		if !r.Done {
			continue
		}
		done++
		for _, a := range r.Attempts {
			spent += time.Duration(a.ElapsedNS)
		}
	}
	if done == 0 {
		return 0
	}
	left := spent / time.Duration(done) * time.Duration(len(runs)-done)
	return left.Round(time.Second)
}
