package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"contend/internal/analyze"
)

func exported(t *testing.T, f Format) []byte {
	t.Helper()
	samples, err := analyze.Samples(hostileSide(), analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Samples(&out, samples, f); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestExportColumnsAreDocumented: docs/export.md has exactly the columns that
// are written, in their order.
func TestExportColumnsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/export.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, written []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		documented = append(documented, m[1])
	}
	for _, c := range exportColumns {
		written = append(written, c.name)
	}
	if !slices.Equal(documented, written) {
		t.Errorf("documented %q\nwritten    %q", documented, written)
	}
}

// TestExportFormatsAgree: both formats hold the same samples, whatever their names.
func TestExportFormatsAgree(t *testing.T) {
	rows, err := csv.NewReader(bytes.NewReader(exported(t, CSV))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(exported(t, JSONL)), []byte("\n"))
	if len(rows) != len(hostileNames)+1 || len(lines) != len(hostileNames) {
		t.Fatalf("%d rows and %d lines for %d samples", len(rows)-1, len(lines), len(hostileNames))
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	var sum float64
	for i, line := range lines {
		var v struct {
			Delay float64 `json:"delay_ns"`
			Class string
			Stack []analyze.StackFrame
		}
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		sum += v.Delay
		row := rows[i+1]
		if row[column("class")] != v.Class || row[column("delay_ns")] != exact(int64(v.Delay)) {
			t.Errorf("row %q, line %s", row, line)
		}
		frames := strings.Split(row[column("stack")], ";")
		if len(frames) != len(v.Stack) {
			t.Fatalf("row %d has the stack %q, its line %v", i, frames, v.Stack)
		}
		for k, f := range frames {
			if name, err := unfoldName(f); err != nil || name != v.Stack[k].Function {
				t.Errorf("frame %q and %q (%v)", name, v.Stack[k].Function, err)
			}
		}
		if _, ok := bytes.CutPrefix(line, []byte(`{"run":1,`)); !ok || bytes.Contains(line, []byte("null")) || bytes.Contains(line, []byte("operations")) {
			t.Errorf("line %s", line)
		}
	}
	if sum != 351000 {
		t.Errorf("the samples sum to %v", sum)
	}
}
