package render

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"contend/internal/analyze"
	"contend/internal/recording"
)

func textOf(t *testing.T, d *analyze.Diff, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Diff(&out, d, Text, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTextFitsItsWidth(t *testing.T) {
	for _, width := range []int{0, 80, 100, 140} {
		limit := max(width, 80)
		if width == 0 {
			limit = defaultWidth
		}
		for _, out := range [][]byte{render(t, "report", Text, Options{Width: width, Limit: 30}), render(t, "diff", Text, Options{Width: width})} {
			for line := range strings.Lines(string(out)) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > limit {
					t.Errorf("width %d: a line of %d: %q", width, n, line)
				}
			}
		}
	}
}

func TestTextColourOnlyWhenAsked(t *testing.T) {
	plain := textOf(t, fixtureDiff(), Options{})
	if strings.Contains(plain, "\x1b") {
		t.Error("escape sequences without Color")
	}
	coloured := textOf(t, fixtureDiff(), Options{Color: true})
	if !strings.Contains(coloured, ansiWorse) {
		t.Error("no colour with Color")
	}
	for _, a := range []string{ansiBold, ansiWorse, ansiBetter, ansiReset} {
		coloured = strings.ReplaceAll(coloured, a, "")
	}
	if coloured != plain {
		t.Error("colour changes more than colour")
	}
}

func TestVerdictLines(t *testing.T) {
	row := func(name, verdict string, ratio float64) analyze.Row {
		r := analyze.Row{By: analyze.ByLock, Name: name, Verdict: verdict, Tested: true, PAdjusted: pointer(0.01),
			Baseline: analyze.Value{Value: 100e3}, Candidate: analyze.Value{Value: 100e3 * ratio}, Change: 100e3 * (ratio - 1)}
		if ratio > 0 {
			r.Ratio, r.Low, r.High = pointer(ratio), pointer(ratio*0.9), pointer(ratio*1.1)
		}
		return r
	}
	// An interval that excludes no change, but only within one process.
	total := row("blocked", "", 1.31)
	total.By = "total"
	side := func(title string) *analyze.Report {
		return &analyze.Report{Title: title, Runs: 10, Totals: analyze.Totals{WallNS: 30e9}}
	}
	for _, c := range []struct {
		verdict, headline string
		rows              []analyze.Row
		want, not         []string
	}{
		{analyze.Improved, "improved: a.mu", []analyze.Row{row("x/a.mu", analyze.Improved, 0.25)},
			[]string{"IMPROVED  a.mu   0.25× wait per message (0.23–0.28, adj. p 0.01)"}, []string{"improved: a.mu"}},
		{analyze.Improved, "improved: a.mu is gone", []analyze.Row{row("x/a.mu", analyze.Gone, 0)},
			[]string{"IMPROVED  a.mu   is gone: it was 100 µs of wait per message"}, nil},
		{analyze.Differ, "these recordings differ by +31 %; how much two runs of one build differ is unknown", []analyze.Row{row("x/a.mu", analyze.Differ, 1.31), total},
			[]string{"DIFFER  these recordings differ by +31 %; how much", "differ (+31 %: +18…+44)"}, []string{"▲"}},
		{analyze.Inconclusive, "inconclusive: a.mu −18 %…+61 %", []analyze.Row{row("x/a.mu", analyze.Inconclusive, 1.1)},
			[]string{"INCONCLUSIVE  a.mu −18 %…+61 %"}, []string{"inconclusive: "}},
		{analyze.Identical, "the same recording on both sides", nil, []string{"IDENTICAL  the same recording", "0 too rare · 0 new · 0 gone"}, []string{"▲"}},
		{analyze.Regressed, "x", []analyze.Row{row("a", analyze.Regressed, 2), row("b", analyze.Regressed, 2), row("c", analyze.Improved, 0.5), row("d", analyze.Regressed, 2)},
			[]string{"IMPROVED   c ", "and 1 more lock below"}, []string{"REGRESSED  d"}},
	} {
		d := &analyze.Diff{Baseline: side("a"), Candidate: side("b"), Pairs: 10, Per: "operation", Operation: "message", Verdict: c.verdict, Headline: c.headline, Rows: c.rows}
		got := textOf(t, d, Options{})
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", c.verdict, w, got)
			}
		}
		for _, n := range c.not {
			if strings.Contains(got, n) {
				t.Errorf("%s: %q in\n%s", c.verdict, n, got)
			}
		}
	}
}

// TestWakesAreNotHolds: from wakes alone the line never claims who held the lock.
func TestWakesAreNotHolds(t *testing.T) {
	l := &analyze.Lock{Name: "mu", DelayNS: 1e9, Wakers: []analyze.Site{{Site: "main.f /src/f.go:1", Share: 1}}}
	if got := lockDetails(l, nil); len(got) != 1 || got[0].key != "woken by" {
		t.Errorf("details from wakes: %+v", got)
	}
	l.Holders = []analyze.Holder{{Site: "main.g /src/g.go:1", Share: 0.7, Low: 0.6, High: 0.8}}
	if got := lockDetails(l, nil); len(got) != 1 || got[0].key != "holds" || !strings.HasPrefix(got[0].text, "70 ± 10 %") {
		t.Errorf("details with holders: %+v", got)
	}
	l.Holders = []analyze.Holder{{Site: recording.NoReleaseSeen, Share: 0.7, Low: 0.7, High: 0.7}} // not an estimate
	if got := lockDetails(l, nil); len(got) != 1 || got[0].name != recording.NoReleaseSeen || !strings.HasPrefix(got[0].text, "70 % of") {
		t.Errorf("details where nobody released: %+v", got)
	}
}

func TestHoldingNote(t *testing.T) {
	h := &analyze.Holding{Bursts: 10, BurstNS: 250e6, Contended: 1000, Parked: 50, Releases: 2000, Handoffs: 20, Queues: 400, Requeues: 100}
	want := "holders from 10 bursts, 250 ms in all: of 1000 contended Locks 95 % won by spinning, 1.0 % of the releases were hand-offs to a starving waiter, 25 % of the waits were repeats"
	if got := holdingNote(h); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := holdingNote(&analyze.Holding{Exact: true, Bursts: 1, BurstNS: 1e9}); got != "holders from every release" {
		t.Errorf("%q of an exact recording without a contended mutex", got)
	}
	if got := holdingNote(nil) + holdingNote(&analyze.Holding{}); got != "" {
		t.Errorf("%q of holders that were not observed", got)
	}
}

func TestUnknownChoices(t *testing.T) {
	for _, err := range []error{
		Report(&bytes.Buffer{}, fixtureReport("x", 1), "yaml", Options{}),
		Report(&bytes.Buffer{}, fixtureReport("x", 1), Text, Options{By: "colour"}),
		Report(&bytes.Buffer{}, fixtureReport("x", 1), CSV, Options{By: "colour"}),
		Diff(&bytes.Buffer{}, fixtureDiff(), CSV, Options{By: "colour"}),
		Diff(&bytes.Buffer{}, fixtureDiff(), SVG, Options{Flame: "nosuch"}),
		Diff(&bytes.Buffer{}, &analyze.Diff{}, Text, Options{}),
	} {
		if err == nil {
			t.Error("no error")
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("error of several lines: %v", err)
		}
	}
	err := Diff(&bytes.Buffer{}, fixtureDiff(), SVG, Options{Flame: "nosuch"})
	if err == nil || !strings.Contains(err.Error(), "waiters") {
		t.Errorf("the error does not say what there is: %v", err)
	}
}
