package render

import (
	"bytes"
	"strings"
	"testing"

	"contend/internal/analyze"
)

// TestOnlyRareLocks: where no lock was tested they are shown, and marked so, also
// beside the row that a limit sums up.
func TestOnlyRareLocks(t *testing.T) {
	d := fixtureDiff()
	rows := d.Rows[:0]
	for _, r := range d.Rows {
		if r.By == analyze.ByLock {
			r.Verdict, r.Tested = analyze.TooRare, false
		}
		rows = append(rows, r)
	}
	d.Rows = append(rows, analyze.Row{By: analyze.ByLock, Name: "[3 others]"})
	var out bytes.Buffer
	if err := Diff(&out, d, Text, Options{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "too rare\n"); n < 3 || !strings.Contains(out.String(), "server.(*stream).mu") {
		t.Errorf("%d rows:\n%s", n, out.String())
	}
}
