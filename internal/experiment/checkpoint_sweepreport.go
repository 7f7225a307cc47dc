package experiment

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"contend/internal/recording"
	"contend/internal/workload/checkpoint"
)

// triggerFigures are the figures published for the system that the workload
// stands for: JDK 17, 4 processors, interval 1 s; µs.
type triggerFigures struct{ perP50, sharedP50, perP99, sharedP99, ratio string }

var (
	gridReference = map[int]map[time.Duration]triggerFigures{
		1:   {0: {"7.12", "10.74", "11.82", "15.33", "0.66"}, shortBody: {"7.16", "10.50", "10.45", "15.41", "0.67"}},
		10:  {0: {"7.42", "9.90", "10.78", "13.49", "0.75"}, shortBody: {"7.78", "9.90", "11.87", "13.66", "0.80"}},
		100: {0: {"9.62", "9.95", "15.74", "14.42", "0.97"}, shortBody: {"9.66", "9.90", "16.61", "13.41", "1.00"}},
		500: {0: {"45.70", "9.95", "81.15", "14.83", "4.61"}, shortBody: {"45.50", "9.90", "78.85", "13.82", "4.63"}},
	}
	// loadReference are mean, p50 and p99 at 500 pipelines.
	loadReference = map[time.Duration]map[string]string{
		shortBody:             {checkpoint.PerPipeline: "46.37 / 45.50 / 78.85", checkpoint.Shared: "10.02 / 9.90 / 13.82"},
		5 * time.Millisecond:  {checkpoint.PerPipeline: "50.84 / 51.07 / 83.84", checkpoint.Shared: "9.45 / 9.33 / 13.28"},
		20 * time.Millisecond: {checkpoint.PerPipeline: "49.39 / 49.98 / 83.20", checkpoint.Shared: "477564 / 460849 / 656188"},
	}
)

const shortBody = 500 * time.Microsecond

// Markdown is the sweep's report.
func (r *TriggerSweepResult) Markdown() []byte {
	var b strings.Builder
	c := r.cells()
	b.WriteString("# Checkpoint triggers: what each scheduler costs, and where it breaks\n\n")
	for _, s := range r.Sessions {
		fmt.Fprintf(&b, "- %s: %d runs of fresh processes in %s, arms of one setting side by side, in random order (seed %d); contend %s, %s; %s.\n",
			strings.Join(s.Parts, ", "), s.Runs, time.Duration(s.ElapsedNS).Round(time.Second), s.Seed, s.Tool.Version, s.Tool.Go, hostLine(s.Host))
	}
	b.WriteString("\n    contend sweep checkpoint-report\n\n")
	b.WriteString("A *trigger* is the reference's figure: an immediate trigger scheduled on the first pipeline, until the prober runs again, back to back.\n" +
		"*Delay* is that of every pipeline's own trigger: due until its body begins. *Queue* is the part of it spent behind other triggers.\n" +
		"Times are µs; *ratio* is per-pipeline ÷ shared. Where three rounds were made, figures are their medians.\n\n")
	b.WriteString("## Findings\n\n")
	table(&b, []string{"what", "here", "reference", "verdict"}, r.findings(c))
	b.WriteString(sweepConclusions)
	r.writeReference(&b, c)
	r.writeUtilization(&b, c)
	r.writeCliff(&b, c)
	r.writeBacklog(&b, c)
	r.writeMixed(&b, c)
	r.writeGrid(&b, c)
	return []byte(b.String())
}

func hostLine(h *recording.HostState) string {
	if h == nil {
		return "host unknown"
	}
	line := fmt.Sprintf("%s, %d CPUs, Linux %s", h.CPUModel, h.CPUs, h.Kernel)
	if h.Load1 != nil {
		line += fmt.Sprintf(", load %.1f at the begin", *h.Load1)
	}
	return line
}

func grid(family, load, arm string, pipelines int, body time.Duration) triggerKey {
	return triggerKey{partGrid, family, load, arm, pipelines, body}
}

func bodyText(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// writeReference puts the closed grid beside the reference's table.
func (r *TriggerSweepResult) writeReference(b *strings.Builder, c triggerCells) {
	b.WriteString("## Beside the reference: OS threads, closed load\n\nIn brackets the reference's.\n\n")
	var rows [][]string
	for _, p := range r.pipelines() {
		for _, body := range r.bodies(partGrid) {
			if body > shortBody {
				continue
			}
			ref := gridReference[p][body]
			k := grid(checkpoint.OSThreads, checkpoint.Closed, checkpoint.PerPipeline, p, body)
			sh, ln := k, k
			sh.arm, ln.arm = checkpoint.Shared, checkpoint.Lanes
			rows = append(rows, []string{
				strconv.Itoa(p), bodyText(body),
				beside(c.micro(k, p50(checkpoint.Trip)), ref.perP50), beside(c.micro(sh, p50(checkpoint.Trip)), ref.sharedP50), c.micro(ln, p50(checkpoint.Trip)),
				beside(c.micro(k, p99(checkpoint.Trip)), ref.perP99), beside(c.micro(sh, p99(checkpoint.Trip)), ref.sharedP99), c.micro(ln, p99(checkpoint.Trip)),
				beside(c.ratio(k, checkpoint.PerPipeline, checkpoint.Shared, meanOf(checkpoint.Trip)), ref.ratio),
				c.ratio(k, checkpoint.PerPipeline, checkpoint.Shared, p50(checkpoint.Trip)),
				c.number(k, gauge(checkpoint.GaugeThreads)) + " / " + c.number(sh, gauge(checkpoint.GaugeThreads)) + " / " + c.number(ln, gauge(checkpoint.GaugeThreads)),
			})
		}
	}
	table(b, []string{"pipelines", "body µs", "per-pipeline p50", "shared p50", "lanes p50", "per-pipeline p99", "shared p99", "lanes p99", "mean ratio", "p50 ratio", "OS threads of the process"}, rows)
}

func beside(here, reference string) string {
	if reference == "" {
		return here
	}
	return here + " (" + reference + ")"
}

// writeUtilization is the reference's second table: 500 pipelines, by body.
func (r *TriggerSweepResult) writeUtilization(b *strings.Builder, c triggerCells) {
	b.WriteString("## 500 pipelines by body: OS threads, closed load\n\nMean / p50 / p99 of a trigger.\n\n")
	var rows [][]string
	for _, body := range r.bodies(partGrid) {
		for _, arm := range []string{checkpoint.PerPipeline, checkpoint.Shared, checkpoint.Lanes} {
			k := grid(checkpoint.OSThreads, checkpoint.Closed, arm, 500, body)
			if len(c[k]) == 0 {
				continue
			}
			ask, busy := "–", "–"
			if u, _ := c.of(k, gauge(checkpoint.GaugeUtilization)); arm != checkpoint.PerPipeline {
				ask = fmt.Sprintf("%.0f %%", u*100)
				s, _ := c.of(k, func(r *recording.WorkloadResult) float64 { return r.BusyShare })
				busy = fmt.Sprintf("%.0f %%", s*100)
			}
			rows = append(rows, []string{
				bodyText(body), ask, busy, arm,
				c.micro(k, meanOf(checkpoint.Trip)) + " / " + c.micro(k, p50(checkpoint.Trip)) + " / " + c.micro(k, p99(checkpoint.Trip)),
				loadReference[body][arm], c.micro(k, p50(checkpoint.Delay)), c.micro(k, p50(checkpoint.Queue)),
				c.number(k, gauge(checkpoint.GaugeScheduler)),
			})
		}
	}
	table(b, []string{"body µs", "utilization asked", "measured", "arm", "trigger", "reference", "delay p50", "queue p50", "scheduler threads"}, rows)
}

// writeCliff shows what tells an operator in time.
func (r *TriggerSweepResult) writeCliff(b *strings.Builder, c triggerCells) {
	b.WriteString("## Before the cliff: 500 pipelines, shared, OS threads\n\n" +
		"The metric to watch is the queue, how long triggers wait behind others, against the length of one body: **safe** while its p99 is under a tenth of a body, which nobody would notice, **strained** while its p50 is, else **unsafe**. Delay includes the lateness of timers.\n" +
		"*Measured* is the dispatch threads' share of time in bodies: sleeps overshoot, so it is more than was asked for.\n\n")
	var rows [][]string
	for _, body := range r.bodies(partCliff) {
		for _, load := range []string{checkpoint.Closed, checkpoint.Open} {
			k := triggerKey{partCliff, checkpoint.OSThreads, load, checkpoint.Shared, cliffPipelines, body}
			if len(c[k]) == 0 {
				continue
			}
			u, _ := c.of(k, gauge(checkpoint.GaugeUtilization))
			busy, _ := c.of(k, func(r *recording.WorkloadResult) float64 { return r.BusyShare })
			rows = append(rows, []string{
				fmt.Sprintf("%.0f %%", u*100), fmt.Sprintf("%.0f %%", busy*100), load,
				c.micro(k, p50(checkpoint.Queue)), c.micro(k, p99(checkpoint.Queue)), c.micro(k, p99(checkpoint.Delay)), c.micro(k, p50(checkpoint.Trip)),
				c.number(k, gauge(checkpoint.GaugeBegin)) + " → " + c.number(k, gauge(checkpoint.GaugeEnd)), safety(c, k),
			})
		}
	}
	table(b, []string{"asked", "measured", "load", "queue p50", "queue p99", "delay p99", "trigger p50", "backlog", "verdict"}, rows)
}

// Verdicts of safety.
const (
	safe     = "safe"
	strained = "strained"
	unsafe   = "unsafe"
)

func safety(c triggerCells, k triggerKey) string {
	half, _ := c.of(k, p50(checkpoint.Queue))
	tail, _ := c.of(k, p99(checkpoint.Queue))
	noticed := float64(k.body) / 10
	switch {
	case tail < noticed:
		return safe
	case half < noticed:
		return strained
	}
	return unsafe
}

// writeBacklog answers whether the backlog grows for ever.
func (r *TriggerSweepResult) writeBacklog(b *strings.Builder, c triggerCells) {
	b.WriteString("## Past saturation: shared, OS threads\n\n" +
		"Delay p50 of the window's first and last quarter (2 s apart by three quarters). The closed form is W = P × S ÷ c − T − S, with the body asked for and with the one that was measured; an open load adds P ÷ T − c ÷ S triggers a second.\n\n")
	var rows [][]string
	for _, p := range r.pipelines() {
		for _, body := range r.bodies(partGrid) {
			for _, load := range []string{checkpoint.Closed, checkpoint.Open} {
				k := grid(checkpoint.OSThreads, load, checkpoint.Shared, p, body)
				u, ok := c.of(k, gauge(checkpoint.GaugeUtilization))
				if !ok || u < 1 {
					continue
				}
				predicted := "grows"
				if load == checkpoint.Closed {
					predicted = r.predict(c, k)
				}
				rows = append(rows, []string{
					strconv.Itoa(p), bodyText(body), fmt.Sprintf("%.0f %%", u*100), load,
					milli(c, k, gauge(checkpoint.GaugeFirst)), milli(c, k, gauge(checkpoint.GaugeLast)), predicted,
					c.number(k, gauge(checkpoint.GaugeBegin)) + " → " + c.number(k, gauge(checkpoint.GaugeEnd)),
				})
			}
		}
	}
	table(b, []string{"pipelines", "body µs", "asked", "load", "delay first ms", "last ms", "closed form ms", "backlog"}, rows)
}

func milli(c triggerCells, k triggerKey, f func(*recording.WorkloadResult) float64) string {
	v, ok := c.of(k, f)
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.3g", v/1e6)
}

// predict is the closed form for a setting, nominal and with the body that was
// measured.
func (r *TriggerSweepResult) predict(c triggerCells, k triggerKey) string {
	nominal, _ := c.of(k, gauge(checkpoint.GaugePredicted))
	return fmt.Sprintf("%.3g; measured body %.3g", nominal/1e6, measuredForm(c, k)/1e6)
}

// measuredForm is the closed form in ns with the measured body. Probes count
// as bodies of no length: their share is taken out.
func measuredForm(c triggerCells, k triggerKey) float64 {
	body, _ := c.of(k, func(r *recording.WorkloadResult) float64 {
		return r.Gauges[checkpoint.GaugeBody] * float64(r.Executor.Tasks) / float64(max(r.Operations, 1))
	})
	bound, _ := c.of(k, func(r *recording.WorkloadResult) float64 {
		n, _ := strconv.ParseFloat(r.Settings["bound"], 64)
		return n
	})
	if bound == 0 {
		return 0
	}
	return max(0, float64(k.pipelines)*body/bound-float64(time.Second)-body)
}

// writeMixed shows whom the slow pipelines delay.
func (r *TriggerSweepResult) writeMixed(b *strings.Builder, c triggerCells) {
	b.WriteString("## Slow pipelines beside fast ones: OS threads, closed load\n\n" +
		"A tenth of the pipelines have an empty body, the others 20 ms. The trigger is on a fast one.\n\n")
	var rows [][]string
	for _, p := range []int{500, 1000} {
		for _, arm := range []string{checkpoint.PerPipeline, checkpoint.Shared, checkpoint.Lanes, checkpoint.AfterFunc} {
			k := triggerKey{partMixed, checkpoint.OSThreads, checkpoint.Closed, arm, p, 20 * time.Millisecond}
			if len(c[k]) == 0 {
				continue
			}
			rows = append(rows, []string{
				strconv.Itoa(p), arm, c.micro(k, p50(checkpoint.Trip)), c.micro(k, p99(checkpoint.Trip)),
				c.micro(k, p50(checkpoint.FastDelay)), c.micro(k, p99(checkpoint.FastDelay)), c.micro(k, p50(checkpoint.Delay)),
				c.number(k, gauge(checkpoint.GaugeScheduler)), c.number(k, gauge(checkpoint.GaugeThreads)),
			})
		}
	}
	table(b, []string{"pipelines", "arm", "trigger p50", "trigger p99", "fast delay p50", "fast delay p99", "all delay p50", "scheduler threads", "OS threads"}, rows)
}

// writeGrid is everything.
func (r *TriggerSweepResult) writeGrid(b *strings.Builder, c triggerCells) {
	for _, family := range []string{checkpoint.OSThreads, checkpoint.Goroutines} {
		for _, load := range []string{checkpoint.Closed, checkpoint.Open} {
			fmt.Fprintf(b, "## All of it: family %s, %s load\n\nTrigger p50 / p99 / mean; n is the number of triggers measured.\n\n", family, load)
			arms := []string{checkpoint.PerPipeline, checkpoint.Shared, checkpoint.Lanes, checkpoint.AfterFunc}
			var rows [][]string
			for _, p := range r.pipelines() {
				for _, body := range r.bodies(partGrid) {
					for _, arm := range arms {
						k := grid(family, load, arm, p, body)
						if len(c[k]) == 0 {
							continue
						}
						ask := "–"
						if u, _ := c.of(k, gauge(checkpoint.GaugeUtilization)); u > 0 {
							ask = fmt.Sprintf("%.0f %%", u*100)
						}
						rows = append(rows, []string{
							strconv.Itoa(p), bodyText(body), arm,
							c.micro(k, p50(checkpoint.Trip)) + " / " + c.micro(k, p99(checkpoint.Trip)) + " / " + c.micro(k, meanOf(checkpoint.Trip)),
							c.number(k, func(r *recording.WorkloadResult) float64 { return float64(r.Latency[checkpoint.Trip].Count) }),
							c.micro(k, p50(checkpoint.Delay)) + " / " + c.micro(k, p99(checkpoint.Delay)),
							ask, c.number(k, gauge(checkpoint.GaugeScheduler)), c.number(k, gauge(checkpoint.GaugeThreads)),
						})
					}
				}
			}
			table(b, []string{"pipelines", "body µs", "arm", "trigger", "n", "delay p50 / p99", "utilization asked", "scheduler threads", "OS threads"}, rows)
		}
	}
}

// sweepConclusions say what no table does.
const sweepConclusions = `## What each gives up

- **per-pipeline**: bounded threads. It is the fastest as long as a thread's wake-up is cheap, one hop from
  the timer's heap to the body, and no pipeline can delay another; two threads for each.
- **shared**: isolation, and a hop. Every trigger wakes a timer thread and then a dispatch thread, so
  its floor is about two wake-ups. Its curve is flat, and its threads are bounded; past
  saturation everybody waits for everybody, and the delay is queueing, not a lock.
- **lanes**: fairness among idle threads (the warmest is woken first), and a pipeline's first trigger
  counts as slow. One hop, as per-pipeline, on shared's thread bound: max(8, 2 × cores) + 2. A
  pipeline that turns slow takes a fast thread once; slow ones among themselves wait as in shared.
- **time.AfterFunc, a goroutine a trigger**: every bound. It has the least delay because nothing waits: as many
  bodies run at once as are due, with all they hold, and where a body blocks its thread in the
  kernel as many threads. An overload shows in memory and in what the bodies call, not in delays.

`
