package render

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"contend/internal/analyze"
)

// TestEveryFormatIsWellFormed reads each output back with a parser of its
// format. The golden files hold the content; this holds the syntax.
func TestEveryFormatIsWellFormed(t *testing.T) {
	check := map[Format]func(*testing.T, []byte){
		SVG: wellFormedXML, JSON: validJSON, Speedscope: validSpeedscope, CSV: validCSV,
	}
	for _, command := range []string{"report", "diff"} {
		for _, f := range Formats() {
			t.Run(command+"/"+string(f), func(t *testing.T) {
				out := render(t, command, f, Options{Experiment: fixtureExperiment()})
				if len(out) == 0 || out[len(out)-1] != '\n' {
					t.Errorf("ends without a newline (%d bytes)", len(out))
				}
				if !utf8.Valid(out) {
					t.Error("not valid UTF-8")
				}
				for i, b := range out {
					if b < 0x20 && b != '\n' || b == 0x7f {
						t.Fatalf("control byte %#x at %d: %q", b, i, out[max(0, i-20):min(len(out), i+20)])
					}
				}
				for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!"} {
					if f != HTML && bytes.Contains(out, []byte(bad)) || f == HTML && bytes.Contains(withoutBundle(out), []byte(bad)) {
						t.Errorf("output contains %s", bad)
					}
				}
				if check[f] != nil {
					check[f](t, out)
				}
				if again := render(t, command, f, Options{Experiment: fixtureExperiment()}); !bytes.Equal(out, again) {
					t.Error("the same input gave different bytes")
				}
			})
		}
	}
}

// TestForeignTextEverywhere puts a hostile string into every field that is not a
// number, by way of JSON, and reads the outputs back.
func TestForeignTextEverywhere(t *testing.T) {
	const hostile = "</title></style></script><script>pwned()</script>\x00\x1b[31m|`\u202e&nbsp;\"'"
	d := fixtureDiff()
	e := fixtureExperiment()
	for _, r := range []*analyze.Report{d.Baseline, d.Candidate} {
		r.Title, r.Warnings, r.Lost = hostile, []string{hostile}, map[string]int64{hostile: 1}
		r.Recording.Operations.Name, r.Recording.Target.Module, r.Recording.Labels = hostile, hostile, map[string]string{hostile: hostile}
		r.Recording.Collectors[0].Settings = map[string]string{hostile: hostile}
		r.Profile, r.Rules[0].Rule, r.Rules[0].Category = hostile, hostile, hostile
		r.Boundaries[0].Class, r.Locks[0].HeldUpNote, r.Locks[0].Waiters[0].Site = hostile, hostile, hostile+" "+hostile+":1"
		r.Flames[0].Title, r.Flames[0].Unit = hostile, hostile
	}
	d.Operation, d.Headline, d.Warnings = hostile, hostile, []string{hostile}
	d.Flames[0].Title, d.Flames[0].Unit, d.Flames[0].Name = hostile, hostile, hostile
	d.Gate[0].Expr, d.Gate[0].Reason, d.Latency[0].Name, d.Latency[0].Unit = hostile, hostile, hostile, hostile
	for i := range d.Rows {
		d.Rows[i].Note, d.Rows[i].Name = hostile, hostile
	}
	e.Name, e.Protocol, e.Notes, e.Runs[0].Arm = hostile, hostile, []string{hostile}, hostile
	e.Arms[0].Name, e.Arms[0].What, e.Arms[0].Note, e.Arms[0].Changes[0].Name = hostile, hostile, hostile, hostile
	e.Arms[0].Figures = []Figure{{Name: hostile, Unit: hostile, Value: 1}}
	o := Options{Experiment: e, Reproduce: []string{hostile}, Limit: 5}
	for _, f := range DiffFormats() {
		var report, diff bytes.Buffer
		if slices.Contains(Formats(), f) {
			if err := Report(&report, d.Baseline, f, o); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
		if err := Diff(&diff, d, f, o); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for _, out := range [][]byte{report.Bytes(), diff.Bytes()} {
			if bytes.ContainsAny(out, "\x00\x1b") || bytes.ContainsRune(out, '\u202e') && f != JSON {
				t.Errorf("%s carries a character nobody can see", f)
			}
			switch f {
			case HTML:
				if n := bytes.Count(out, []byte("<script")); n != 2 {
					t.Errorf("the page has %d script elements", n)
				}
			case SVG:
				wellFormedXML(t, out)
			case JUnit:
				if len(out) > 0 && xml.Unmarshal(out, new(junitSuites)) != nil {
					t.Errorf("no XML: %s", out)
				}
			case Markdown:
				for line := range bytes.Lines(out) {
					// An indented block is code whatever is in it.
					if bytes.Contains(line, []byte("<script")) && !bytes.HasPrefix(line, []byte("    ")) {
						t.Errorf("Markdown passes markup on: %s", line)
					}
				}
			}
		}
	}
}

func wellFormedXML(t *testing.T, out []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(out))
	allowed := map[string]bool{"svg": true, "style": true, "rect": true, "text": true, "g": true, "title": true}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && !allowed[e.Name.Local] {
			t.Errorf("element <%s> is not one of ours", e.Name.Local)
		}
	}
}

func validJSON(t *testing.T, out []byte) {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	if v["schema"] != 1.0 || v["experiment"] == nil {
		t.Errorf("schema is %v, experiment %v", v["schema"], v["experiment"])
	}
	if bytes.ContainsAny(out, "<>") {
		t.Error("unescaped < or >: the file could not stand inside a page")
	}
}

func validCSV(t *testing.T, out []byte) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll() // refuses rows of unequal length
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 6 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows[1:] {
		for _, c := range r {
			if strings.IndexAny(c, "=+@") == 0 {
				t.Errorf("a spreadsheet would run the cell %q", c)
			}
			if _, err := strconv.ParseFloat(c, 64); err != nil && strings.HasPrefix(c, "-") {
				t.Errorf("a spreadsheet would run the cell %q", c)
			}
		}
	}
}

//go:embed testdata/speedscope/file-format-schema.json
var speedscopeSchema []byte

// validSpeedscope holds the file to speedscope's own published schema, and to
// what a schema cannot say: indices and sums.
func validSpeedscope(t *testing.T, out []byte) {
	t.Helper()
	const name = "https://www.speedscope.app/file-format-schema.json"
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(speedscopeSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(file); err != nil {
		t.Error(err)
	}
	var f speedscopeFile
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatal(err)
	}
	if f.Schema != name || len(f.Profiles) == 0 {
		t.Fatalf("schema %q, %d profiles", f.Schema, len(f.Profiles))
	}
	for _, p := range f.Profiles {
		if p.Name == "" || len(p.Samples) == 0 || len(p.Samples) != len(p.Weights) {
			t.Errorf("%q: %d samples and %d weights", p.Name, len(p.Samples), len(p.Weights))
		}
		sum := 0.0
		for i, s := range p.Samples {
			sum += p.Weights[i]
			for _, k := range s {
				if k < 0 || k >= len(f.Shared.Frames) {
					t.Fatalf("frame %d of %d", k, len(f.Shared.Frames))
				}
			}
		}
		if math.Abs(sum-p.EndValue) > sum*1e-9 {
			t.Errorf("weights sum to %g, the end value is %g", sum, p.EndValue)
		}
	}
}

func TestJSONKeys(t *testing.T) {
	var report, diff map[string]any
	for out, command := range map[*map[string]any]string{&report: "report", &diff: "diff"} {
		if err := json.Unmarshal(render(t, command, JSON, Options{}), out); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"schema", "recording", "totals", "locks", "boundaries", "roots", "lost", "warnings"} {
		if _, ok := report[key]; !ok {
			t.Errorf("report has no %q", key)
		}
	}
	for _, key := range []string{"schema", "baseline", "candidate", "pairs", "per", "verdict", "rows", "warnings"} {
		if _, ok := diff[key]; !ok {
			t.Errorf("diff has no %q", key)
		}
	}
	if runs := diff["baseline"].(map[string]any)["runs"]; runs != 10.0 {
		t.Errorf("baseline.runs is %v", runs)
	}
}

// TestFoldedRoundTrip: reading the file back gives every frame and every value.
func TestFoldedRoundTrip(t *testing.T) {
	for _, sides := range []int{1, 2} {
		flame := fixtureFlame(sides)
		var out bytes.Buffer
		if err := writeFolded(&out, &flame); err != nil {
			t.Fatal(err)
		}
		type stack struct {
			frames []string
			values [2]float64
		}
		var want []stack
		eachStack(flame.Root, func(nodes []*analyze.Node, self [2]float64) {
			s := stack{values: self}
			for _, n := range nodes {
				s.frames = append(s.frames, n.Name)
			}
			want = append(want, s)
		})
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(want) {
			t.Fatalf("%d lines for %d stacks", len(lines), len(want))
		}
		var sum [2]float64
		for i, line := range lines {
			var values [2]float64
			for side := sides - 1; side >= 0; side-- {
				cut := strings.LastIndexByte(line, ' ')
				v, err := strconv.ParseFloat(line[cut+1:], 64)
				if err != nil {
					t.Fatal(err)
				}
				values[side], line = v, line[:cut]
				sum[side] += v
			}
			frames := strings.Split(line, ";")
			if len(frames) != len(want[i].frames) || values != want[i].values {
				t.Fatalf("line %d: %d frames %v, want %d frames %v", i, len(frames), values, len(want[i].frames), want[i].values)
			}
			for k := range frames {
				name, err := unfoldName(frames[k])
				if err != nil || name != want[i].frames[k] {
					t.Errorf("frame %q came back as %q (%v)", want[i].frames[k], name, err)
				}
			}
		}
		if sum != flame.Root.Values {
			t.Errorf("lines sum to %v, the graph to %v", sum, flame.Root.Values)
		}
	}
}

func FuzzFoldedName(f *testing.F) {
	for _, n := range hostileNames {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, name string) {
		folded := foldedName(name)
		if strings.ContainsAny(folded, ";\n\r") {
			t.Errorf("%q folds to %q", name, folded)
		}
		back, err := unfoldName(folded)
		if err != nil || back != name {
			t.Errorf("%q came back as %q (%v)", name, back, err)
		}
	})
}
