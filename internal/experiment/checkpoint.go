package experiment

import (
	"fmt"
	"strings"
	"time"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/recording"
	"contend/internal/workload/checkpoint"
)

// checkpointNotes say what each arm of the checkpoint workload does.
var checkpointNotes = map[string]string{
	checkpoint.PerPipeline:    "two threads for each pipeline",
	checkpoint.Shared:         "two timer threads and a bounded number of dispatch threads for all pipelines",
	checkpoint.Lanes:          "one bounded set of threads, two of which never run a slow pipeline",
	checkpoint.AfterFunc:      "the runtime's timers, a goroutine for each trigger, no bound",
	checkpoint.Savepoint:      "shared; savepoints sleep under the coordinator lock until the pending checkpoint is complete",
	checkpoint.SavepointFixed: "shared; savepoints sleep without the lock",
}

// The coordinator lock, and the one who sleeps under it.
const (
	coordinatorLock = "coordinator lock"
	savepointSite   = "checkpoint.(*coordinator).savepoint"
)

// triggerRun is what one run says of its triggers: the times of the unrecorded
// window, the waits of the recorded one, ns each.
type triggerRun struct {
	trigger, queue, delay float64 // p50 of an immediate trigger, behind others, due until begun
	queueRecorded         float64 // mean of the recorded window
	locks                 float64 // waits for all locks, per trigger
	threads               float64 // of the scheduler
	utilization           float64
	coordinator           float64 // waits for the coordinator lock, per trigger
	leads                 bool    // it is the lock waited for longest
	share                 float64 // of the blocked time with an application frame
	bySavepoint           float64 // the share of its waits that a savepoint's release ended
	held                  float64 // the share a savepoint held it for, where holders were captured; −1 else
}

func (r *Result) triggerRuns(series string) ([]triggerRun, error) {
	side, err := r.Side(series, recording.Waits, recording.Holders)
	if err != nil {
		return nil, err
	}
	var out []triggerRun
	for _, run := range side.Runs {
		report, err := analyze.NewReport(analyze.Side{Name: series, Runs: []analyze.Run{run}}, analyze.Options{Profile: recording.Waits})
		if err != nil {
			return nil, err
		}
		p, ops := run.Plain, float64(max(run.Workload.Operations, 1))
		t := triggerRun{
			trigger: float64(p.Latency[checkpoint.Trip].P50), queue: float64(p.Latency[checkpoint.Queue].P50),
			delay: float64(p.Latency[checkpoint.Delay].P50), queueRecorded: run.Workload.Latency[checkpoint.Queue].Mean,
			locks: float64(report.Totals.LockNS) / ops, threads: p.Gauges[checkpoint.GaugeScheduler],
			utilization: p.Gauges[checkpoint.GaugeUtilization], held: -1,
		}
		for i := range report.Locks {
			t.attribute(&report.Locks[i], i == 0, ops)
		}
		out = append(out, t)
	}
	return out, nil
}

// attribute takes in one row of a run's lock table.
func (t *triggerRun) attribute(l *analyze.Lock, first bool, ops float64) {
	if l.Name != coordinatorLock {
		return
	}
	t.coordinator, t.leads, t.share = float64(l.DelayNS)/ops, first, l.Share
	ended := 0.0
	for _, s := range l.Wakers {
		ended += float64(s.DelayNS)
		if strings.Contains(s.Site, savepointSite) {
			t.bySavepoint += float64(s.DelayNS)
		}
	}
	t.bySavepoint /= max(ended, 1) // a wait cut by the window's end was ended by nobody
	for _, h := range l.Holders {
		t.held = max(t.held, 0)
		if strings.Contains(h.Site, savepointSite) {
			t.held += h.Share
		}
	}
}

// over is the median of a figure over runs.
func over(runs []triggerRun, of func(triggerRun) float64) float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, of(r))
	}
	return estimate(v).Center
}

func runTrigger(r triggerRun) float64     { return r.trigger }
func runQueue(r triggerRun) float64       { return r.queue }
func runQueueMean(r triggerRun) float64   { return r.queueRecorded }
func runDelay(r triggerRun) float64       { return r.delay }
func runLocks(r triggerRun) float64       { return r.locks }
func runThreads(r triggerRun) float64     { return r.threads }
func runCoordinator(r triggerRun) float64 { return r.coordinator }

func checkpointFigures(r *Result, series string) ([]render.Figure, error) {
	runs, err := r.triggerRuns(series)
	if err != nil {
		return nil, err
	}
	return []render.Figure{
		{Name: "immediate trigger p50", Unit: "ns", Value: over(runs, runTrigger)},
		{Name: "scheduling delay p50", Unit: "ns", Value: over(runs, runDelay)},
		{Name: "behind other triggers p50", Unit: "ns", Value: over(runs, runQueue)},
		{Name: "all locks' wait per trigger", Unit: "ns", Value: over(runs, runLocks)},
		{Name: "coordinator lock's wait per trigger", Unit: "ns", Value: over(runs, runCoordinator)},
		{Name: "scheduler threads", Value: over(runs, runThreads)},
	}, nil
}

// checkpointFindings hold an experiment with the checkpoint workload against
// what it was to show, beside the figures published for the system it stands for.
func checkpointFindings(r *Result, s *Summary, _ map[string]map[int]attribution) ([]render.Finding, error) {
	by := map[string][]triggerRun{}
	for _, arm := range s.Settings.Arms {
		runs, err := r.triggerRuns(arm)
		if err != nil {
			return nil, err
		}
		by[arm] = runs
	}
	var out []render.Finding
	for _, arm := range s.Settings.Arms {
		runs := by[arm]
		f := render.Finding{
			What: arm + ": immediate trigger p50; scheduler threads",
			Here: fmt.Sprintf("%s; %.0f", short(int64(over(runs, runTrigger))), over(runs, runThreads)),
		}
		if s.Settings.Workload["pipelines"] == "500" {
			f.Reference = triggerReference(arm, s.Settings.Workload["body"])
		}
		out = append(out, f)
		if arm == checkpoint.Shared || arm == checkpoint.Lanes {
			out = append(out, queueFindings(arm, runs)...)
		}
	}
	out = append(out, savepointFindings(by)...)
	return append(out, verifyFinding(s)), nil
}

func triggerReference(arm, body string) string {
	d, err := time.ParseDuration(body)
	if err != nil {
		return ""
	}
	if d == 0 {
		return map[string]string{checkpoint.PerPipeline: "45.70 µs; 1000", checkpoint.Shared: "9.95 µs; 10"}[arm]
	}
	if v := loadReference[d][arm]; v != "" {
		return "mean / p50 / p99 " + v + " µs"
	}
	return ""
}

// queueFindings say what the delay of a bounded arm is made of.
func queueFindings(arm string, runs []triggerRun) []render.Finding {
	queue, locks := over(runs, runQueueMean), over(runs, runLocks)
	f := render.Finding{
		What: arm + ": mean time behind other triggers against the wait for all locks, per trigger",
		Here: fmt.Sprintf("%s against %s", short(int64(queue)), short(int64(locks))),
	}
	if u := over(runs, func(r triggerRun) float64 { return r.utilization }); u > 1 {
		f.Here += fmt.Sprintf(", dispatch threads asked for %.0f %%: the delay is queueing, not a lock", u*100)
		f.Goal, f.Verdict = "locks at most 1 % of it", met(locks <= queue/100)
		if f.Verdict != met(true) {
			f.Here = strings.TrimSuffix(f.Here, ": the delay is queueing, not a lock")
		}
	}
	return []render.Finding{f}
}

// savepointFindings are those about the savepoint that sleeps under the lock.
func savepointFindings(by map[string][]triggerRun) []render.Finding {
	locked, fixed := by[checkpoint.Savepoint], by[checkpoint.SavepointFixed]
	var out []render.Finding
	if len(locked) > 0 {
		leads, wakes, held := 0, over(locked, func(r triggerRun) float64 { return r.bySavepoint }), over(locked, func(r triggerRun) float64 { return r.held })
		for _, r := range locked {
			if r.leads {
				leads++
			}
		}
		out = append(out,
			render.Finding{
				What: "runs with savepoints in which the coordinator lock leads the lock waits", Goal: "all",
				Here:    fmt.Sprintf("%d of %d, %.0f %% of the blocked time", leads, len(locked), 100*over(locked, func(r triggerRun) float64 { return r.share })),
				Verdict: met(leads == len(locked)),
			},
			render.Finding{
				What: "of the waits for it, ended by the savepoint that slept under it", Goal: "at least 90 %",
				Here: fmt.Sprintf("%.0f %%%s", wakes*100, heldText(held)), Verdict: met(wakes >= 0.9),
			})
	}
	if len(locked) > 0 && len(fixed) > 0 {
		a, b := over(locked, runCoordinator), over(fixed, runCoordinator)
		out = append(out, render.Finding{
			What: "coordinator lock's wait per trigger, savepoints under the lock → outside it", Goal: "at most 1 % is left",
			Here:    fmt.Sprintf("%s → %s; immediate trigger p50 %s → %s", short(int64(a)), short(int64(b)), short(int64(over(locked, runTrigger))), short(int64(over(fixed, runTrigger)))),
			Verdict: met(a > 0 && b <= a/100),
		})
	}
	return out
}

func heldText(share float64) string {
	if share < 0 {
		return ""
	}
	return fmt.Sprintf("; it held the lock for %.0f %% of their time", share*100)
}
