package ledger

import (
	"fmt"
	"math"
	"strings"
	"time"

	"contend/internal/recording"
)

// Limits of a run that is fit to compare.
const (
	minDelivered = 0.95 // delivered ÷ added: below, the subscription falls behind
	maxLittle    = 0.05 // relative error of in flight = rate × latency
	minBusy      = 0.95 // share of time the executor has work, saturated
)

// judgeMessages sets OK, or the reason why not, by the messages alone.
func judgeMessages(v recording.Verify) recording.Verify {
	v.OK = v.Lost == 0 && v.Duplicated == 0 && v.Reordered == 0 && v.Invalid == 0
	v.Reason = ""
	if !v.OK {
		v.Reason = fmt.Sprintf("messages lost %d, duplicated %d, reordered %d, invalid %d",
			v.Lost, v.Duplicated, v.Reordered, v.Invalid)
	}
	return v
}

// judgeWindow adds the rules that make a window fit to compare.
func judgeWindow(r recording.WorkloadResult, saturated bool) recording.Verify {
	v := judgeMessages(r.Verify)
	var reasons []string
	if !v.OK {
		reasons = append(reasons, v.Reason)
	}
	if r.Added == 0 || r.ElapsedNS <= 0 {
		reasons = append(reasons, "nothing was added")
	} else {
		if share := float64(r.Operations) / float64(r.Added); share < minDelivered {
			reasons = append(reasons, fmt.Sprintf("delivered only %.1f %% of what was added", 100*share))
		}
		if off := littleError(r); math.Abs(off) > maxLittle {
			reasons = append(reasons, fmt.Sprintf("Little's law is off by %+.1f %%", 100*off))
		}
	}
	if saturated && r.BusyShare < minBusy {
		reasons = append(reasons, fmt.Sprintf("the executor had work only %.1f %% of the time", 100*r.BusyShare))
	}
	v.OK = len(reasons) == 0
	v.Reason = strings.Join(reasons, "; ")
	return v
}

// littleError is how far rate × mean publish latency is from the mean number
// in flight, relative to the latter. By Little's law (J. D. C. Little, 1961)
// L = λW the two agree; where they do not, a clock or a count is wrong, or the
// load was not steady.
func littleError(r recording.WorkloadResult) float64 {
	rate := float64(r.Added) / (float64(r.ElapsedNS) / float64(time.Second))
	reckoned := rate * r.Latency["publish"].Mean / float64(time.Second)
	if r.InFlight == 0 {
		return math.Inf(1)
	}
	return reckoned/r.InFlight - 1
}
