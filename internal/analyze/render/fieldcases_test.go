package render

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// TestFlameGraphCases has one test for each thing that users of other flame
// graphs ran into; the public thread stands beside it. Each goes from a pprof
// file to the output.
func TestFlameGraphCases(t *testing.T) {
	for _, c := range []struct {
		name  string
		check func(*testing.T)
	}{
		{"markup in names gives broken or unsafe SVG and HTML (brendangregg/FlameGraph#2)", caseMarkup},
		{"NUL or ESC in a frame: the browser refuses the SVG (brendangregg/FlameGraph#280)", caseControls},
		{"names holding ; or newline split in folded text (google/pprof#669)", caseFolded},
		{"stacks that vanished are invisible in the diff (brendangregg/FlameGraph#74)", caseVanished},
		{"one side empty gives NaN % (elastic/kibana#138498)", caseOneSideEmpty},
		{"red and green cannot be told apart (jonhoo/inferno#163)", caseHue},
		{"over 2000 frames high the canvas is blank (async-profiler/async-profiler#418)", caseHigh},
		{"100,000 nodes make the page unusable (brendangregg/FlameGraph#39)", caseNodes},
	} {
		t.Run(c.name, c.check)
	}
}

// stackOf is a stack, root first, with its waits and their delay.
type stackOf struct {
	frames []string
	delay  int64
}

// blockSide is a side of one block profile, as an endpoint serves it: no
// recording around it and no length.
func blockSide(name string, stacks ...stackOf) analyze.Side {
	p := &profile.Profile{PeriodType: &profile.ValueType{}, SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}}
	locations := map[string]*profile.Location{}
	for _, st := range stacks {
		s := &profile.Sample{Value: []int64{1, st.delay}}
		for i := len(st.frames) - 1; i >= 0; i-- {
			f := st.frames[i]
			if locations[f] == nil {
				id := uint64(len(p.Function) + 1)
				fn := &profile.Function{ID: id, Name: f, Filename: "x.go"}
				locations[f] = &profile.Location{ID: id, Line: []profile.Line{{Function: fn, Line: 1}}}
				p.Function, p.Location = append(p.Function, fn), append(p.Location, locations[f])
			}
			s.Location = append(s.Location, locations[f])
		}
		p.Sample = append(p.Sample, s)
	}
	return analyze.Side{Name: name, Runs: []analyze.Run{{Profiles: map[string]*profile.Profile{recording.Block: p}}}}
}

const lockCall = "sync.(*Mutex).Lock"

func reportOf(t *testing.T, s analyze.Side) *analyze.Report {
	t.Helper()
	r, err := analyze.NewReport(s, analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func diffOf(t *testing.T, a, b analyze.Side) *analyze.Diff {
	t.Helper()
	d, err := analyze.Compare(a, b, analyze.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func reportIn(t *testing.T, r *analyze.Report, f Format) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Report(&out, r, f, Options{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func diffIn(t *testing.T, d *analyze.Diff, f Format) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Diff(&out, d, f, Options{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// hostileSide waits 1, 2, … 26 µs under the 26 hostile names: 351 µs together.
func hostileSide() analyze.Side {
	var stacks []stackOf
	for i, name := range hostileNames {
		stacks = append(stacks, stackOf{[]string{"main.main", name, lockCall}, int64(i+1) * 1000})
	}
	return blockSide("hostile", stacks...)
}

func caseMarkup(t *testing.T) {
	r := reportOf(t, hostileSide())
	wellFormedXML(t, reportIn(t, r, SVG))
	ctx := browser(t)
	w, url := openPage(t, ctx, "hostile.html", reportIn(t, r, HTML))
	until(t, ctx, `document.querySelectorAll("#flame-0 g.frame").length > 20`)
	if eval[bool](t, ctx, `"pwned" in window`) {
		t.Error("a name ran as script")
	}
	testSearch(t, ctx) // every one of the 26 names
	w.check(t, url)
}

func caseControls(t *testing.T) {
	svg := reportIn(t, reportOf(t, hostileSide()), SVG)
	for _, want := range []string{`frame05\x00nul`, `frame06\x1b[`, `frame09\nnewline`} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("the SVG does not show %q", want)
		}
	}
	ctx := browser(t)
	w, url := openPage(t, ctx, "controls.svg", svg)
	if got := eval[string](t, ctx, `document.documentElement.nodeName + " " + document.querySelectorAll("parsererror").length`); got != "svg 0" {
		t.Errorf("the browser made %q of the SVG", got)
	}
	if n := eval[int](t, ctx, `document.querySelectorAll("g > title").length`); n < len(hostileNames) {
		t.Errorf("%d boxes", n)
	}
	w.check(t, url)
}

func caseFolded(t *testing.T) {
	sum, lines := 0.0, 0
	for line := range strings.Lines(string(reportIn(t, reportOf(t, hostileSide()), Folded))) {
		lines++
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v
		if frames := strings.Split(line[:at], ";"); len(frames) != 3 {
			t.Errorf("%d frames instead of 3: %q", len(frames), line)
		} else if name, err := unfoldName(frames[1]); err != nil || !strings.Contains(name, "frame") {
			t.Errorf("the name came back as %q (%v)", name, err)
		}
	}
	if sum != 351000 || lines != 26 {
		t.Errorf("%d stacks sum to %v, want 26 and 351000", lines, sum)
	}
}

func vanishedDiff(t *testing.T) *analyze.Diff {
	return diffOf(t,
		blockSide("before", stackOf{[]string{"main.main", "main.old", lockCall}, 100e6}, stackOf{[]string{"main.main", "main.both", lockCall}, 50e6}),
		blockSide("after", stackOf{[]string{"main.main", "main.both", lockCall}, 80e6}, stackOf{[]string{"main.main", "main.fresh", lockCall}, 30e6}))
}

func caseVanished(t *testing.T) {
	d := vanishedDiff(t)
	svg := string(diffIn(t, d, SVG))
	for _, want := range []string{"main.old\ngone: 100 ms → 0 ns", "main.fresh\nnew: 0 ns → 30.0 ms", "main.both\n50.0 ms → 80.0 ms (+30.0 ms, 1.60×)", "▼ main.old", "▲ main.fresh"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the SVG does not show %q", want)
		}
	}
	// Deltas of the boxes' own time add up to the total's, after folding and merging too.
	root := newFrame(d.Flames[0].Root)
	thin(root, larger, 40e6, func(*frame) int { return 1 }, 1000)
	var sum float64
	var walk func(f *frame)
	walk = func(f *frame) {
		own := f.values[1] - f.values[0]
		for _, c := range f.children {
			own -= c.values[1] - c.values[0]
			walk(c)
		}
		sum += own
	}
	walk(root)
	if total := root.values[1] - root.values[0]; sum != total || total != -40e6 {
		t.Errorf("shown deltas add up to %v, the total's is %v, want −40 ms", sum, total)
	}
	var rows float64
	text := string(diffIn(t, d, Text))
	for i := range d.Rows {
		if d.Rows[i].By == analyze.ByLock {
			rows += d.Rows[i].Change
		}
	}
	if rows != -40e6 || !strings.Contains(text, "main.old") {
		t.Errorf("lock rows change by %v; the table lists the lock that is gone: %v", rows, strings.Contains(text, "main.old"))
	}
}

func caseOneSideEmpty(t *testing.T) {
	full := blockSide("full", stackOf{[]string{"main.main", "main.f", lockCall}, 5e6})
	for word, d := range map[string]*analyze.Diff{"new": diffOf(t, blockSide("empty"), full), "gone": diffOf(t, full, blockSide("empty"))} {
		for _, f := range Formats() {
			out := withoutBundle(diffIn(t, d, f))
			for _, bad := range []string{"NaN", "Inf", "%!"} {
				if bytes.Contains(out, []byte(bad)) {
					t.Errorf("%s has %s", f, bad)
				}
			}
			if (f == Text || f == SVG) && !bytes.Contains(out, []byte(word)) {
				t.Errorf("%s does not say %q:\n%s", f, word, out)
			}
		}
	}
}

// caseHue: without colours, the label's sign tells the direction; and the
// colours differ in blue, which the common kinds of colour blindness keep.
func caseHue(t *testing.T) {
	svg := diffIn(t, vanishedDiff(t), SVG)
	signs := map[string]string{"l4": "▼", "m4": "▲", "m3": "▲"}
	var class string
	var inText bool
	seen := 0
	for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
			for _, a := range e.Attr {
				if e.Name.Local == "rect" && a.Name.Local == "class" {
					class = a.Value
				}
				inText = inText && a.Name.Local != "class" // headings have one
			}
		case xml.CharData:
			if sign := signs[class]; inText && sign != "" && len(e) > 0 {
				seen++
				if !strings.HasPrefix(string(e), sign) {
					t.Errorf("a box of class %s is labelled %q", class, e)
				}
			}
		case xml.EndElement:
			inText = false
		}
	}
	if seen < 4 {
		t.Errorf("only %d labels seen", seen)
	}
	for _, pair := range [][2]string{{"#5aa2d8", "#ee8a1d"}, {"#abd1ed", "#fbc98d"}} {
		for _, c := range pair {
			if !strings.Contains(svgStyle, c) {
				t.Errorf("colour %s is gone from the SVG", c)
			}
		}
		less, _ := strconv.ParseUint(pair[0][5:], 16, 8)
		more, _ := strconv.ParseUint(pair[1][5:], 16, 8)
		if less < more+80 {
			t.Errorf("%s and %s differ too little in blue", pair[0], pair[1])
		}
	}
}

func caseHigh(t *testing.T) {
	frames := []string{"main.bottom"}
	for i := range 5000 {
		frames = append(frames, fmt.Sprintf("main.level%04d", i))
	}
	frames = append(frames, "main.top", lockCall)
	r := reportOf(t, blockSide("high", stackOf{frames, 1e6}))
	wellFormedXML(t, reportIn(t, r, SVG))
	ctx := browser(t)
	for _, f := range []Format{SVG, HTML} {
		w, url := openPage(t, ctx, "high."+extensions[f], reportIn(t, r, f))
		if f == HTML {
			until(t, ctx, `document.querySelectorAll("#flame-0 g.frame").length > 20`)
		}
		for _, want := range []string{"main.bottom", "main.top", lockCall, "frames folded"} {
			shown := `[...document.querySelectorAll("title")].map((e) => e.textContent).join("\n")`
			if f == HTML {
				search(t, ctx, want)
				shown = `[...document.querySelectorAll("#flame-0 g.frame")].map((g) => g.getAttribute("name")).join("\n") + "\n" + ` + foundText
			}
			if got := eval[string](t, ctx, shown); !strings.Contains(got, want) || strings.Contains(got, "0 found") {
				t.Errorf("%s does not show %q", f, want)
			}
		}
		w.check(t, url)
	}
}

func caseNodes(t *testing.T) {
	var stacks []stackOf
	var want int64
	for i := range 100_000 {
		v := int64(1000 + i%977)
		want += v
		stacks = append(stacks, stackOf{[]string{"main.main", fmt.Sprintf("main.group%03d", i%400), fmt.Sprintf("main.work%06d", i), lockCall}, v})
	}
	r := reportOf(t, blockSide("wide", stacks...))
	if got := r.Flames[0].Root.Values[0]; got != float64(want) {
		t.Errorf("the graph sums to %v, want %d", got, want)
	}
	svg, page := reportIn(t, r, SVG), reportIn(t, r, HTML)
	for name, out := range map[string][]byte{"SVG": svg, "page": page} {
		if len(out) > maxFile {
			t.Errorf("%s of %d bytes", name, len(out))
		}
		if !bytes.Contains(out, []byte("smaller)")) && !bytes.Contains(out, []byte("smaller stacks]")) {
			t.Errorf("%s does not count what it merged", name)
		}
	}
	// What the page draws from sums to the same: [frame, baseline, candidate, [children]].
	start := bytes.Index(page, []byte(`id="flame-data">`)) + len(`id="flame-data">`)
	var data []struct{ Root []any }
	if err := json.NewDecoder(bytes.NewReader(page[start:])).Decode(&data); err != nil {
		t.Fatal(err)
	}
	var leaves func(n []any) float64
	leaves = func(n []any) float64 {
		if len(n) < 4 {
			return n[1].(float64)
		}
		sum := 0.0
		for _, c := range n[3].([]any) {
			sum += leaves(c.([]any))
		}
		return sum
	}
	if got := leaves(data[0].Root); math.Abs(got-float64(want)) > 1 {
		t.Errorf("the page's boxes sum to %v, want %d", got, want)
	}
	ctx := browser(t)
	w, url := openPage(t, ctx, "wide.html", page)
	until(t, ctx, `document.querySelectorAll("#flame-0 g.frame").length > 100`)
	t.Logf("%d bytes, first contentful paint after %.0f ms, all drawn after %.0f ms", len(page), eval[float64](t, ctx, firstPaint),
		eval[float64](t, ctx, `performance.timeOrigin ? performance.now() : -1`))
	w.check(t, url)
}
