package render

import (
	"strings"
	"testing"
	"time"

	"contend/internal/analyze"
)

// TestBackgroundOfAllRuns: what is told of a series is told of all its runs.
func TestBackgroundOfAllRuns(t *testing.T) {
	r := fixtureReport("v1", 1)
	for i := range 6 {
		m := fixtureManifest("v1")
		m.Target.PID = 100 + i
		m.Started = m.Started.Add(time.Duration(i) * time.Minute)
		m.Host.Before.CurrentMHz = pointer(2000 + 100*float64(i))
		m.Host.After.Steal = pointer(10 + 0.06*float64(i))
		m.Labels = map[string]string{"arm": "batched", "pair": string(rune('1' + i))}
		r.Recordings = append(r.Recordings, m)
	}
	r.Recordings[5].Operations = nil
	got := map[string]string{}
	for _, row := range background([]*analyze.Report{r}, []string{"value"})[0].rows {
		got[row.cells[0].text] = row.cells[1].text
	}
	for label, want := range map[string]string{
		"target":            "(PID 102) and 3 more",
		"operations":        "1321500 × message",
		"started":           "2026-03-01T12:00:00Z to 2026-03-01T12:05:00Z",
		"clock":             "2250 on average (2000 to 2500) then 2890 MHz",
		"steal":             "2.5 % on average (0 % to 5.0 %)",
		"labels":            "arm=batched; pair=1, 2, 3 and 3 more",
		"kernel":            "6.12.0",
		"cost of recording": "0.7 %; 7.41M probe hits, 126 ms in BPF",
	} {
		if !strings.Contains(got[label], want) {
			t.Errorf("%s: %q, want %q", label, got[label], want)
		}
	}
}
