package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
	"contend/internal/workload/checkpoint"
)

// findings hold the sweep against what the reference found.
func (r *TriggerSweepResult) findings(c triggerCells) [][]string {
	var out [][]string
	for _, family := range []string{checkpoint.OSThreads, checkpoint.Goroutines} {
		out = append(out, r.flat(c, family, checkpoint.Shared, "flat: 9.9–10.7 µs from 1 to 500"), r.flat(c, family, checkpoint.Lanes, "–"), r.crossover(c, family, checkpoint.Shared, "100"), r.crossover(c, family, checkpoint.Lanes, "–"), r.knee(c, family))
	}
	out = append(out, r.lanesAtOne(c), r.lanesMixed(c), r.cliff(c), r.warning(c), r.bounded(c), r.unbounded(c), r.threads(c))
	return slices.DeleteFunc(out, func(f []string) bool { return f == nil })
}

// curve is an arm's trigger p50 over pipelines at body 0, closed load.
func (r *TriggerSweepResult) curve(c triggerCells, family, arm string) (at []int, values []float64) {
	for _, p := range r.pipelines() {
		if v, ok := c.of(grid(family, checkpoint.Closed, arm, p, 0), p50(checkpoint.Trip)); ok {
			at, values = append(at, p), append(values, v)
		}
	}
	return at, values
}

// flat: how far the p50 moves over the number of pipelines.
func (r *TriggerSweepResult) flat(c triggerCells, family, arm, reference string) []string {
	at, v := r.curve(c, family, arm)
	if len(v) == 0 {
		return nil
	}
	low, high := slices.Min(v), slices.Max(v)
	verdict := "flat"
	if high > 2*low {
		verdict = "not flat"
	}
	return []string{
		fmt.Sprintf("%s on %s threads, body 0: trigger p50 over %d–%d pipelines", arm, family, at[0], at[len(at)-1]),
		fmt.Sprintf("%s–%s µs", micros(low), micros(high)), reference, verdict + " (within a factor 2)",
	}
}

// crossover: from how many pipelines on an arm's threads are faster than own ones.
func (r *TriggerSweepResult) crossover(c triggerCells, family, arm, reference string) []string {
	at, own := r.curve(c, family, checkpoint.PerPipeline)
	_, one := r.curve(c, family, arm)
	if len(own) == 0 || len(own) != len(one) {
		return nil
	}
	here := fmt.Sprintf("none up to %d", at[len(at)-1])
	for i := len(at) - 1; i >= 0 && one[i] < own[i]; i-- {
		here = fmt.Sprintf("at most %d", at[i])
		if i > 0 {
			here = fmt.Sprintf("between %d and %d", at[i-1], at[i])
		}
	}
	verdict := elsewhere(here, "between 10 and 100")
	if arm != checkpoint.Shared {
		verdict = ""
	}
	return []string{"crossover on " + family + " threads: pipelines from which " + arm + " is faster than per-pipeline", here, reference, verdict}
}

// knee: where the per-pipeline curve leaves its floor.
func (r *TriggerSweepResult) knee(c triggerCells, family string) []string {
	at, v := r.curve(c, family, checkpoint.PerPipeline)
	if len(v) == 0 {
		return nil
	}
	floor, here := v[0], fmt.Sprintf("none up to %d", at[len(at)-1])
	for i := range v {
		floor = min(floor, v[i])
		if v[i] > 2*floor {
			here = fmt.Sprintf("between %d and %d: %s µs over a floor of %s", at[i-1], at[i], micros(v[i]), micros(floor))
			break
		}
	}
	return []string{"knee on " + family + " threads: per-pipeline p50 at twice its least", here, "between 100 and 500", elsewhere(here, "between 100 and 500")}
}

// elsewhere tells a place that is the reference's from another one, and from none.
func elsewhere(here, there string) string {
	switch {
	case strings.HasPrefix(here, "none"):
		return "not reproduced here"
	case strings.HasPrefix(here, there):
		return "reproduced"
	}
	return "reproduced, but not there"
}

func reproduced(ok bool) string {
	if ok {
		return "reproduced"
	}
	return "not reproduced here"
}

// lanesAtOne: no worse than a pipeline's own threads when there is one pipeline.
func (r *TriggerSweepResult) lanesAtOne(c triggerCells) []string {
	k := grid(checkpoint.OSThreads, checkpoint.Closed, checkpoint.Lanes, 1, 0)
	lanes, ok := c.of(k, p50(checkpoint.Trip))
	k.arm = checkpoint.PerPipeline
	own, ok2 := c.of(k, p50(checkpoint.Trip))
	if !ok || !ok2 {
		return nil
	}
	return []string{"lanes at one pipeline, OS threads, body 0: p50 against per-pipeline", fmt.Sprintf("%s against %s µs", micros(lanes), micros(own)), "–", met(lanes <= 1.1*own) + " (within 10 %)"}
}

// lanesMixed: slow pipelines delay only slow ones.
func (r *TriggerSweepResult) lanesMixed(c triggerCells) []string {
	k := triggerKey{partMixed, checkpoint.OSThreads, checkpoint.Closed, checkpoint.Lanes, 500, 20 * time.Millisecond}
	lanes, ok := c.of(k, p50(checkpoint.Trip))
	threads, _ := c.of(k, gauge(checkpoint.GaugeScheduler))
	k.arm = checkpoint.Shared
	shared, ok2 := c.of(k, p50(checkpoint.Trip))
	if !ok || !ok2 {
		return nil
	}
	return []string{
		"lanes, 50 fast pipelines beside 450 slow ones: fast p50 against shared's",
		fmt.Sprintf("%s against %s µs, on %.0f threads", micros(lanes), micros(shared), threads), "trial: 20 against 146,000 µs", met(lanes < 1e6),
	}
}

// cliff: what passing 100 % costs.
func (r *TriggerSweepResult) cliff(c triggerCells) []string {
	k := grid(checkpoint.OSThreads, checkpoint.Closed, checkpoint.Shared, 500, 5*time.Millisecond)
	below, ok := c.of(k, p50(checkpoint.Trip))
	k.body = 20 * time.Millisecond
	above, ok2 := c.of(k, p50(checkpoint.Trip))
	if !ok || !ok2 {
		return nil
	}
	return []string{"cliff: shared p50 at 31 % and at 125 % utilization, 500 pipelines", micros(below) + " → " + micros(above) + " µs", "9.33 → 460,849 µs", reproduced(above > 1000*below)}
}

// warning: whether the queue's delay tells safe from unsafe, and before an
// immediate trigger shows anything.
func (r *TriggerSweepResult) warning(c triggerCells) []string {
	floor := math.Inf(1) // of an immediate trigger's p50
	for k := range c {
		if trip, ok := c.of(k, p50(checkpoint.Trip)); ok && k.part == partCliff {
			floor = min(floor, trip)
		}
	}
	most, least := map[string]float64{}, map[string]float64{} // measured utilization, by verdict
	var early, missed, fallen int
	for k := range c {
		if k.part != partCliff {
			continue
		}
		busy, _ := c.of(k, func(r *recording.WorkloadResult) float64 { return r.BusyShare })
		trip, _ := c.of(k, p50(checkpoint.Trip))
		verdict := safety(c, k)
		if _, seen := least[verdict]; !seen {
			least[verdict] = busy
		}
		most[verdict], least[verdict] = max(most[verdict], busy), min(least[verdict], busy)
		switch over := trip > cliffFactor*floor; {
		case over:
			fallen++
			if verdict != unsafe {
				missed++
			}
		case verdict != safe:
			early++
		}
	}
	if fallen == 0 || len(least) == 0 {
		return nil
	}
	verdict := "separates, before the cliff"
	switch {
	case missed > 0:
		verdict = "does not separate"
	case early == 0:
		verdict = "separates, at the cliff"
	}
	var ranges []string
	for _, v := range []string{safe, strained, unsafe} {
		if _, seen := least[v]; seen {
			low, high := fmt.Sprintf("%.0f", least[v]*100), fmt.Sprintf("%.0f", most[v]*100)
			if low != high {
				high = low + "–" + high
			}
			ranges = append(ranges, v+" at "+high+" %")
		}
	}
	return []string{
		"the queue's delay as a warning: verdicts by measured utilization",
		fmt.Sprintf("%s; an immediate trigger's p50 is over %d × its least in %d settings, %d of them not called unsafe; settings called strained or unsafe before it shows: %d",
			strings.Join(ranges, ", "), cliffFactor, fallen, missed, early),
		"proposed, not measured", verdict,
	}
}

// cliffFactor is how far past its least an immediate trigger's p50 is over the
// cliff: the reference's goes up by 50,000.
const cliffFactor = 10

// overloads are the settings past saturation.
func (r *TriggerSweepResult) overloads(c triggerCells, load string) []triggerKey {
	var keys []triggerKey
	for k, runs := range c {
		if k.part == partGrid && k.load == load && k.arm == checkpoint.Shared && runs[0].Gauges[checkpoint.GaugeUtilization] > 1 {
			keys = append(keys, k)
		}
	}
	return keys
}

// bounded: past saturation a closed load levels off, and where.
func (r *TriggerSweepResult) bounded(c triggerCells) []string {
	keys := r.overloads(c, checkpoint.Closed)
	if len(keys) == 0 {
		return nil
	}
	level, worst := 0, 0.0
	for _, k := range keys {
		last, _ := c.of(k, gauge(checkpoint.GaugeLast))
		peak, _ := c.of(k, gauge(checkpoint.GaugePeak))
		off := math.Abs(last/max(measuredForm(c, k), 1) - 1)
		if worst = max(worst, off); off < 0.25 && peak <= float64(k.pipelines)+1 { // and the probe
			level++
		}
	}
	return []string{
		"closed load past saturation: at most one trigger a pipeline waits, and the delay is that of the closed form",
		fmt.Sprintf("in %d of %d settings; at most %.0f %% off the closed form with the measured body", level, len(keys), worst*100),
		`"grows for as long as the overload lasts"`, refuted(level == len(keys)),
	}
}

// unbounded: an open load's backlog grows.
func (r *TriggerSweepResult) unbounded(c triggerCells) []string {
	keys := r.overloads(c, checkpoint.Open)
	if len(keys) == 0 {
		return nil
	}
	grows := 0
	for _, k := range keys {
		begin, _ := c.of(k, gauge(checkpoint.GaugeBegin))
		end, _ := c.of(k, gauge(checkpoint.GaugeEnd))
		if end > 1.1*begin {
			grows++
		}
	}
	return []string{"open load past saturation: the backlog grows", fmt.Sprintf("in %d of %d settings", grows, len(keys)), "grows", reproduced(grows == len(keys))}
}

func refuted(ok bool) string {
	if ok {
		return "refuted for the closed load, which the reference's own harness is"
	}
	return "not refuted"
}

// threads: what each arm keeps.
func (r *TriggerSweepResult) threads(c triggerCells) []string {
	p := r.pipelines()
	k := grid(checkpoint.OSThreads, checkpoint.Closed, checkpoint.PerPipeline, p[len(p)-1], 0)
	own, ok := c.of(k, gauge(checkpoint.GaugeScheduler))
	k.arm = checkpoint.Shared
	shared, _ := c.of(k, gauge(checkpoint.GaugeScheduler))
	k.arm = checkpoint.Lanes
	lanes, _ := c.of(k, gauge(checkpoint.GaugeScheduler))
	if !ok {
		return nil
	}
	return []string{fmt.Sprintf("scheduler threads at %d pipelines: per-pipeline, shared, lanes", k.pipelines), fmt.Sprintf("%.0f, %.0f, %.0f", own, shared, lanes), "509 and 10 at 500", "reproduced"}
}
