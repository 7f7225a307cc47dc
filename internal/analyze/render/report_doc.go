package render

import (
	"fmt"
	"slices"
	"strings"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// reportDocument puts one side into words.
func reportDocument(r *analyze.Report, o Options) (*document, error) {
	sides := sideTitles(r, nil)
	var lost int64
	for _, n := range r.Lost {
		lost += n
	}
	d := &document{
		title:      sides[0],
		header:     header(sides, runsOf(r), []*analyze.Report{r}, lost),
		lost:       lostLine("", r.Lost),
		warnings:   foldWarnings(r.Warnings),
		flames:     r.Flames,
		sides:      sides,
		experiment: o.Experiment.view(),
		reproduce:  o.Reproduce,
		background: background([]*analyze.Report{r}, []string{"value"}),
	}
	tables, err := reportTables(r, o)
	if err != nil {
		return nil, err
	}
	d.tables = o.Experiment.first(tables)
	d.verdicts = []verdict{reportVerdict(r)}
	d.facts = withHandOvers(reportFacts(r), operationOf(r), r.HandOvers)
	d.idle = noAverages
	if anyState(r.Goroutines) {
		d.states = states([]analyze.Goroutines{r.Goroutines}, []string{"number"}, nil)
		if r.Mode == analyze.ModeMoment {
			d.states.title = "goroutines that wait"
		}
		d.idle = idleLine(average(r.Goroutines.Idle), r.Rules)
	}
	return d, nil
}

// reportVerdict is the answer of one side: the lock that hurts most, by amount.
func reportVerdict(r *analyze.Report) verdict {
	if len(r.Locks) == 0 && r.Profile == recording.OffCPU {
		// A goroutine that waits for a lock seldom takes its thread off the CPU.
		if r.Totals.BlockedNS == 0 && len(r.Idle) > 0 {
			return verdict{word: "idle", text: "threads were off the CPU for want of work only; record waits to see locks"}
		}
		return verdict{word: "locks not captured", text: "threads off the CPU alone were; record waits to see locks"}
	}
	if len(r.Locks) == 0 {
		return verdict{word: "no contention", text: fmt.Sprintf("no lock contention seen in %s%s", runsOf(r), modeNote(r))}
	}
	l := &r.Locks[0]
	if r.Mode == analyze.ModeMoment {
		s := fmt.Sprintf("%s waiting, %s of the blocked ones", plural(int(l.OpenWaits), "goroutine"), percent(l.Share))
		if l.UnfinishedMaxNS > 0 {
			s += fmt.Sprintf(", the longest for at least %s", duration(float64(l.UnfinishedMaxNS)))
		}
		return verdict{word: "leads", name: short(l.Name), text: s}
	}
	if all := lockTime(r); float64(all) < trifle*float64(r.Totals.WallNS) {
		return verdict{word: "no contention", text: fmt.Sprintf("next to no lock contention in %s: %s in all, most of it for %s%s",
			runsOf(r), duration(float64(all)), short(l.Name), modeNote(r))}
	}
	s := fmt.Sprintf("%s of the blocked time (%s)", percent(l.Share), duration(float64(l.DelayNS)))
	if w := waiting(l.WaitingAvg, r); w != nil {
		s = average(w) + " goroutines waiting on average, " + s
	}
	return verdict{word: "leads", name: short(l.Name), text: s}
}

// trifle is the share of the time, of one goroutine, below which waiting for locks is
// not worth a headline.
const trifle = 0.001

// modeNote reminds what the capture could not have seen.
func modeNote(r *analyze.Report) string {
	if r.Mode != analyze.ModeLocks {
		return ""
	}
	if r.Parts != nil {
		return fmt.Sprintf("; what else waits was captured for %s", window(float64(r.Parts.WallNS)))
	}
	return "; channels and condition variables were not captured"
}

// elsewhereTable lists where goroutines wait for others, as far as captured.
func elsewhereTable(r *analyze.Report, limit int) table {
	t := table{id: "elsewhere", title: "back-pressure and hand-off", cols: []column{text("boundary"), text("blocked in"), text("what"),
		number("waiting"), number("wait"), number("waits")}}
	var shown, whole int64
	for i, e := range r.Elsewhere {
		whole += e.DelayNS
		if limit >= 0 && i >= limit {
			continue
		}
		shown += e.DelayNS
		t.rows = append(t.rows, row{cells: []cell{named(short(e.Boundary)), named(short(e.Blocker)), words(clean(e.Category)),
			figure(average(waiting(e.WaitingAvg, r)), e.WaitingAvg), figure(duration(float64(e.DelayNS)), float64(e.DelayNS)),
			waits(r, e.Contentions)}})
	}
	for _, o := range r.Omitted {
		if o.Table == "elsewhere" {
			whole += o.DelayNS
		}
	}
	t.source = covering(shown, whole, "back-pressure and hand-off")
	t.note = leftOut(r, "elsewhere", len(r.Elsewhere), len(t.rows))
	if r.Parts != nil {
		t.note = joinNotes(t.note, "captured for "+window(float64(r.Parts.WallNS)))
	}
	return t
}

// reportFacts are throughput and latency, where the target is a workload or was counted.
func reportFacts(r *analyze.Report) []string {
	var out []string
	switch {
	case r.Workload != nil && r.Workload.ElapsedNS > 0 && r.Workload.Operations > 0:
		rate := float64(r.Workload.Operations) / (float64(r.Workload.ElapsedNS) / 1e9)
		out = append(out, count(rate)+" "+rateUnit(operationOf(r)))
		for _, name := range sortedKeys(r.Workload.Latency) {
			l := r.Workload.Latency[name]
			out = append(out, fmt.Sprintf("%s p50 %s, p99 %s", latencyName(name), duration(float64(l.P50)), duration(float64(l.P99))))
		}
	case r.Totals.Operations != nil && r.Totals.WallNS > 0:
		out = append(out, count(float64(*r.Totals.Operations)/(float64(r.Totals.WallNS)/1e9))+" "+rateUnit(operationOf(r)))
	}
	if s := captured(r); s != "" {
		out = append(out, s)
	}
	if s := handedOverFact(r); s != "" && !slowHandOvers(r) {
		out = append(out, s)
	}
	return out
}

// captured says which waits were captured, and for how long, where that was a choice.
func captured(r *analyze.Report) string {
	if r.Recording == nil || !slices.ContainsFunc(r.Recording.Collectors, func(c recording.Collector) bool { return c.Settings["asked"] != "" }) {
		return ""
	}
	switch {
	case r.Mode == analyze.ModeAll:
		return "every wait captured"
	case r.Mode != analyze.ModeLocks:
		return ""
	case r.Parts != nil:
		return fmt.Sprintf("waits for locks captured, every other wait for %s", window(float64(r.Parts.WallNS)))
	}
	return "only waits for locks captured"
}

func operationOf(r *analyze.Report) string {
	if r != nil && r.Recording != nil && r.Recording.Operations != nil {
		return r.Recording.Operations.Name
	}
	return ""
}

// reportTables are the tables of a report: one by --by, else the first screen's.
func reportTables(r *analyze.Report, o Options) ([]table, error) {
	switch o.By {
	case analyze.ByBoundary:
		return []table{boundaryTable(r, o.Limit).from(o, o.By)}, nil
	case analyze.ByRoot:
		return []table{rootTable(r, "roots", "root", r.Roots, o.Limit).from(o, o.By)}, nil
	case analyze.ByFunction:
		return []table{rootTable(r, "functions", "function", r.Functions, o.Limit).from(o, o.By)}, nil
	case analyze.ByWaker:
		if len(r.Wakers) > 0 {
			return []table{rootTable(r, "wakers", "woken by", r.Wakers, o.Limit).from(o, o.By)}, nil
		}
		return []table{wakerTable(r, o.Limit).from(o, o.By)}, nil
	case analyze.ByHolder:
		return []table{holdersTable(r, o.Limit).from(o, o.By)}, nil
	case analyze.ByPair:
		return []table{pairsTable(r, o.Limit).from(o, o.By)}, nil
	case "", analyze.ByLock, analyze.ByInstance:
		var out []table
		idle := r.Totals.BlockedNS == 0 && len(r.Idle) > 0
		if len(r.Locks) > 0 || !idle || r.Profile != recording.OffCPU {
			out = append(out, lockTable(r, o.Limit).from(o, orWord(o.By, analyze.ByLock)))
		}
		if len(r.Chains) > 0 {
			out = append(out, chainTable(r, o.few).from(o, ""))
		}
		if len(r.Boundaries) > 0 || !idle {
			out = append(out, boundaryTable(r, o.few).from(o, analyze.ByBoundary))
		}
		if len(r.Elsewhere) > 0 {
			out = append(out, elsewhereTable(r, o.few).from(o, ""))
		}
		if len(r.HandedOver) > 0 && (o.full || slowHandOvers(r)) {
			out = append(out, handedOverTable(r, o.few).from(o, ""))
		}
		if len(r.Idle) > 0 && (o.full || idle) {
			out = append(out, idleTable(r, o.few).from(o, ""))
		}
		if o.full {
			out = append(out, rootTable(r, "roots", "root", r.Roots, o.few).from(o, analyze.ByRoot))
			if len(r.Categories) > 0 {
				out = append(out, rootTable(r, "categories", "category", r.Categories, o.Limit).from(o, ""))
			}
		}
		return out, nil
	}
	return nil, unknownBy(o.By)
}

func unknownBy(by string) error {
	return fmt.Errorf("unknown table %q; choose one of %s", by, strings.Join(analyze.Bys(), ", "))
}

// from adds the command that gives the table alone; by "" is the whole output's.
func (t table) from(o Options, by string) table {
	if o.Command == "" {
		return t
	}
	command := clean(o.Command)
	if by == "" {
		by = o.By
	}
	if by != "" {
		command += " --by " + by
	}
	t.source, t.command = orWord(t.source, "all there is"), command
	return t
}

// covering says what share of what the rows are.
func covering(shown, whole int64, what string) string {
	if whole <= 0 {
		return ""
	}
	return fmt.Sprintf("shows %s of %s of %s", percent(min(float64(shown)/float64(whole), 1)), duration(float64(whole)), what)
}

// lockTime is the time of all rows that the lock table has or had.
func lockTime(r *analyze.Report) int64 {
	var sum int64
	for i := range r.Locks {
		sum += r.Locks[i].DelayNS
	}
	for _, o := range r.Omitted {
		if o.Table == "locks" {
			sum += o.DelayNS
		}
	}
	return sum
}

func lockTable(r *analyze.Report, limit int) table {
	var shown int64
	many := false
	op := operationOf(r)
	t := table{id: "locks", title: "locks", cols: []column{text("lock"), number("waiting"), number("wait"), number(perTitle("operation", orWord(op, "operation"))),
		extra(number("instances")), number("held up"), number("waits"), extra(number("mean")), extra(number("p99")), number("max")}}
	for i := range limited(r.Locks, limit) {
		l := &r.Locks[i]
		row := row{cells: []cell{
			named(short(l.Name)),
			figure(average(waiting(l.WaitingAvg, r)), l.WaitingAvg),
			figure(duration(float64(l.DelayNS)), float64(l.DelayNS)),
			optionalDuration(l.DelayPerOpNS),
			instancesCell(l),
			optionalShare(l.HeldUpShare),
			lockWaits(r, l),
			meanCell(r, l),
			// A bucket's lower bound: the true percentile lies within a factor of two above.
			lengthCell("≥", l.P99NS),
			lengthCell("", l.MaxNS),
		}}
		if i < detailedRows {
			row.details = lockDetails(l, nil)
		} else {
			row.details = instancesDetail(l)
		}
		row.more, row.histograms = lockMore(l)
		t.rows = append(t.rows, row)
		shown += l.DelayNS
		many = many || l.Instances > 1
	}
	t.source = covering(shown, lockTime(r), "waits for locks and groups")
	t.note = leftOut(r, "locks", len(r.Locks), len(t.rows))
	if len(r.Locks) == 0 {
		t.note = "no lock contention seen" + modeNote(r)
	} else if r.Mode == analyze.ModeUnlock {
		t.note = joinNotes(t.note, "this profile charges waits to the site that unlocked, not to the one that waited")
	}
	t.note = joinNotes(t.note, holdingNote(r.Holding))
	if !many {
		t = t.without(4)
	}
	if r.Totals.Operations == nil {
		t = t.without(3)
	}
	return t
}

// waits is a number of waits, where the profile has it.
func waits(r *analyze.Report, n int64) cell {
	if r.Uncounted {
		return figure(notCaptured, -1)
	}
	return figure(count(float64(n)), float64(n))
}

// lockWaits is the same of a lock, whose waits at a moment are all open.
func lockWaits(r *analyze.Report, l *analyze.Lock) cell {
	if r.Mode == analyze.ModeMoment {
		return waits(r, l.OpenWaits)
	}
	return waits(r, l.Contentions)
}

func meanCell(r *analyze.Report, l *analyze.Lock) cell {
	if r.Uncounted || r.Mode == analyze.ModeMoment {
		return figure(notCaptured, -1)
	}
	return figure(duration(l.MeanNS), l.MeanNS)
}

// holdingNote says how holders were observed, and how mutexes were won and passed on meanwhile.
func holdingNote(h *analyze.Holding) string {
	if h == nil || h.Bursts == 0 {
		return ""
	}
	note := "holders from every release"
	if !h.Exact {
		note = fmt.Sprintf("holders from %s, %s in all", plural(int(h.Bursts), "burst"), duration(float64(h.BurstNS)))
	}
	if h.Contended > 0 {
		note += fmt.Sprintf(": of %s contended Locks %s won by spinning", count(float64(h.Contended)), percent(1-ratio(h.Parked, h.Contended)))
	}
	if h.Releases > 0 {
		note += fmt.Sprintf(", %s of the releases were hand-offs to a starving waiter", percent(ratio(h.Handoffs, h.Releases)))
	}
	if h.Queues > 0 {
		note += fmt.Sprintf(", %s of the waits were repeats", percent(ratio(h.Requeues, h.Queues)))
	}
	return note
}

func ratio(part, whole int64) float64 { return min(float64(part)/float64(whole), 1) }

// detailedRows is how many locks of a report get their waiters and holders spelled out.
const detailedRows = 3

// lengthCell is a wait's length; a profile of sums alone has none.
func lengthCell(prefix string, ns int64) cell {
	if ns <= 0 {
		return figure(notCaptured, -1)
	}
	return figure(prefix+duration(float64(ns)), float64(ns))
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func optionalDuration(ns *float64) cell {
	if ns == nil {
		return figure(notCaptured, -1)
	}
	return figure(duration(*ns), *ns)
}

func optionalShare(share *float64) cell {
	if share == nil {
		return figure(notCaptured, -1)
	}
	return figure(percent(*share), *share)
}

func boundaryTable(r *analyze.Report, limit int) table {
	t := table{id: "boundaries", title: "boundaries: where application code blocks", cols: []column{text("boundary"), text("blocked in"), extra(text("called from")), text("class"),
		number("wait"), number("share"), number("waits")}}
	var shown int64
	for _, b := range limited(r.Boundaries, limit) {
		shown += b.DelayNS
		t.rows = append(t.rows, row{cells: []cell{named(short(b.Boundary)), named(short(b.Blocker)), named(short(b.Caller)), words(clean(b.Class)),
			figure(duration(float64(b.DelayNS)), float64(b.DelayNS)), figure(percent(b.Share), b.Share),
			waits(r, b.Contentions)}})
	}
	t.note = leftOut(r, "boundaries", len(r.Boundaries), len(t.rows))
	t.source = covering(shown, r.Totals.BlockedNS, "blocked time")
	return t
}

func rootTable(rep *analyze.Report, id, what string, all []analyze.Root, limit int) table {
	t := table{id: id, title: id, cols: []column{text(what), number("wait"), number("share"), number("waits")}}
	var shown int64
	for _, r := range limited(all, limit) {
		shown += r.DelayNS
		t.rows = append(t.rows, row{cells: []cell{named(short(r.Name)), figure(duration(float64(r.DelayNS)), float64(r.DelayNS)),
			figure(percent(r.Share), r.Share), waits(rep, r.Contentions)}})
	}
	t.note = leftOut(rep, id, len(all), len(t.rows))
	switch id {
	case "functions": // on one stack there are several
		t.source = fmt.Sprintf("functions overlap, of %s of blocked time", duration(float64(rep.Totals.BlockedNS)))
	case "wakers":
		t.source = covering(shown, lockTime(rep), "waits for locks and groups")
	default:
		t.source = covering(shown, rep.Totals.BlockedNS, "blocked time")
	}
	return t
}

// wakerTable lists lock × waker.
func wakerTable(r *analyze.Report, limit int) table {
	locks, shown := r.Locks, int64(0)
	t := table{id: "wakers", title: "wakers: whose release ended the waits", cols: []column{text("lock"), text("woken by"), number("wait"), number("of the lock"), number("waits")}}
	total := 0
	for i := range locks {
		for _, s := range locks[i].Wakers {
			total++
			if limit >= 0 && total > limit {
				continue
			}
			shown += s.DelayNS
			t.rows = append(t.rows, row{cells: []cell{named(short(locks[i].Name)), named(shortSite(s.Site)), figure(duration(float64(s.DelayNS)), float64(s.DelayNS)),
				figure(percent(s.Share), s.Share), figure(count(float64(s.Contentions)), float64(s.Contentions))}})
		}
	}
	t.note = leftOver(total, len(t.rows))
	t.source = covering(shown, lockTime(r), "waits for locks and groups")
	return t
}

// leftOut says what a table does not show: rows cut here, and rows the analysis
// had cut before, with their time.
func leftOut(r *analyze.Report, table string, all, shown int) string {
	note := leftOver(all, shown)
	for _, o := range r.Omitted {
		if o.Table == table && o.Rows > 0 {
			return joinNotes(note, fmt.Sprintf("%s left out, %s together", plural(o.Rows, "smaller row"), duration(float64(o.DelayNS))))
		}
	}
	return note
}

func joinNotes(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " · " + b
}

func leftOver(all, shown int) string {
	switch {
	case all == 0:
		return "none seen"
	case all > shown:
		return fmt.Sprintf("%d more not shown", all-shown)
	}
	return ""
}
