package render

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "write screenshots of the pages to this folder")

// browser starts a headless Chromium of its own. The test may skip only where
// there is none and nobody has asked for it by CONTEND_REQUIRE_BROWSER.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("CONTEND_REQUIRE_BROWSER") != "" {
			t.Fatal("CONTEND_REQUIRE_BROWSER is set and no Chromium is on the PATH")
		}
		t.Skip("no Chromium on the PATH")
	}
	scratch, err := os.MkdirTemp("", "page") // a short path: the browser makes a socket there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(scratch) })
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true), chromedp.UserDataDir(t.TempDir()), chromedp.Env("TMPDIR="+scratch),
		// The browser's own calls home are not the page's; without them nothing at all may be resolved.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"))
	t.Cleanup(cancelAlloc)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	run(t, ctx) // starts the browser, whose life must not be that of the timeout
	ctx, cancelTime := context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(cancelTime)
	return ctx
}

// watch collects everything that should not happen.
type watch struct {
	mu       sync.Mutex
	problems []string
	loaded   []string
}

func (w *watch) on(t *testing.T, ctx context.Context) {
	t.Helper()
	err := chromedp.Listen(ctx, func(ev any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch e := ev.(type) {
		case *network.EventRequestWillBeSent:
			w.loaded = append(w.loaded, e.Request.URL)
		case *runtime.EventExceptionThrown:
			w.problems = append(w.problems, "exception: "+fmt.Sprint(e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			w.problems = append(w.problems, fmt.Sprintf("console.%s", e.Type))
		case *log.EventEntryAdded:
			w.problems = append(w.problems, "log: "+e.Entry.Text)
		case *page.EventJavascriptDialogOpening:
			w.problems = append(w.problems, "dialog: "+e.Message)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	for _, enable := range []cdp.Command[cdp.Empty, cdp.Empty]{log.Enable, runtime.Enable} {
		if _, err := chromedp.Call(ctx, enable, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *watch) check(t *testing.T, url string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		t.Error(p)
	}
	for _, l := range w.loaded {
		if l != url {
			t.Errorf("the page asked for %s", l)
		}
	}
	if len(w.loaded) == 0 {
		t.Error("no request was seen at all: the watch is blind")
	}
}

// openPage writes content to a file and opens it from there.
func openPage(t *testing.T, ctx context.Context, name string, content []byte) (w *watch, url string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	url = "file://" + path
	w = &watch{}
	w.on(t, ctx)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	return w, url
}

func run(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// eval returns the value of a JavaScript expression.
func eval[T any](t *testing.T, ctx context.Context, js string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js))
	if err != nil {
		t.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits for a condition of the page; the context bounds the wait.
func until(t *testing.T, ctx context.Context, js string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](js, chromedp.WithPollingTimeout(20*time.Second))); err != nil {
		t.Fatalf("waiting for %s: %v", js, err)
	}
}

func TestPageInBrowser(t *testing.T) {
	for _, command := range []string{"report", "diff"} {
		t.Run(command, func(t *testing.T) {
			ctx := browser(t)
			o := Options{Reproduce: reproduce()}
			if command == "diff" {
				o.Experiment = fixtureExperiment()
			}
			w, url := openPage(t, ctx, command+".html", render(t, command, HTML, o))
			until(t, ctx, `document.querySelectorAll("#flame-0 g.frame").length > 20`)
			testPrint(t, ctx)
			testLayout(t, ctx, command)
			testNamesAreInert(t, ctx)
			testSearch(t, ctx)
			testZoom(t, ctx)
			testKeyboard(t, ctx)
			testSort(t, ctx)
			testUnfoldAndFilter(t, ctx)
			if command == "diff" {
				testSides(t, ctx)
			}
			w.check(t, url)
			testAccessible(t, ctx)
		})
	}
}

// firstPaint is when the page first showed something, ms after the start; −1 is not yet.
const firstPaint = `(performance.getEntriesByName("first-contentful-paint")[0] || {startTime: -1}).startTime`

//go:embed testdata/axe/axe.min.js.gz
var axe []byte

// testAccessible runs axe-core's rules for WCAG 2.2 A and AA and its best
// practices over the page as it stands, in both colour schemes, with a lock
// unfolded.
func testAccessible(t *testing.T, ctx context.Context) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(axe))
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	eval[bool](t, ctx, string(script)+"\n;document.querySelector('#table-locks button.unfold').click(), true")
	defer chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	for _, scheme := range []string{"light", "dark"} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		eval[bool](t, ctx, `delete window.axeResult; axe.run(document, {preload: false, resultTypes: ["violations"]}).then(
			(r) => { window.axeResult = r; }, (e) => { window.axeResult = {violations: [{id: String(e), help: "axe failed", nodes: []}], passes: []}; }); true`)
		until(t, ctx, `!!window.axeResult`)
		for _, v := range eval[[]string](t, ctx, `axeResult.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join(" | "))`) {
			t.Errorf("%s: %s", scheme, v)
		}
		if n := eval[int](t, ctx, `axeResult.passes.length`); n < 15 {
			t.Errorf("%s: only %d rules applied", scheme, n)
		}
	}
	eval[bool](t, ctx, `document.querySelector('#table-locks button.unfold').click(), true`)
}

// TestLargePageInBrowser: the deepest and the widest graphs open, with both ends
// of the deep stack findable and no more boxes on the screen than can be seen.
func TestLargePageInBrowser(t *testing.T) {
	ctx := browser(t)
	r := fixtureReport("large", 1)
	r.Flames = limitFlames()
	var out bytes.Buffer
	if err := Report(&out, r, HTML, Options{}); err != nil {
		t.Fatal(err)
	}
	w, url := openPage(t, ctx, "large.html", out.Bytes())
	until(t, ctx, `document.querySelectorAll("#flame-1 g.frame").length > 100`)
	for _, term := range []string{"level 0001", "deepest leaf", "frames folded"} {
		search(t, ctx, term)
		if got := eval[string](t, ctx, foundText); !strings.HasPrefix(got, "1 found: ") {
			t.Errorf("search for %q says %q", term, got)
		}
	}
	if n := eval[int](t, ctx, `document.querySelectorAll("g.frame").length`); n > 8000 {
		t.Errorf("%d boxes drawn at once", n)
	}
	t.Logf("first contentful paint after %.0f ms, %d bytes", eval[float64](t, ctx, firstPaint), out.Len())
	w.check(t, url)
}

// testNamesAreInert: hostile names show as text, and none of them ran or became an element.
func testNamesAreInert(t *testing.T, ctx context.Context) {
	if eval[bool](t, ctx, `"pwned" in window`) {
		t.Error("a name ran as script")
	}
	if n := eval[int](t, ctx, `document.querySelectorAll("body script").length`); n != 2 {
		t.Errorf("%d script elements in the body, want the data and the bundle", n)
	}
	if n := eval[int](t, ctx, `document.querySelectorAll("[onmouseover],[onload],main b:not(tr.detail b),main a").length`); n != 0 {
		t.Errorf("%d elements made of names", n)
	}
	text := eval[string](t, ctx, `document.body.innerText`)
	for i, name := range hostileNames {
		if !strings.Contains(text, short(name)) {
			t.Errorf("name %d is not shown as it is: %q", i, short(name))
		}
	}
}

// search types into the search box of the first graph.
func search(t *testing.T, ctx context.Context, term string) {
	t.Helper()
	quoted, _ := json.Marshal(term)
	eval[bool](t, ctx, fmt.Sprintf(`(() => { const i = document.querySelector("#flame-0 input[type=search]"); i.value = %s; i.dispatchEvent(new Event("input")); return true; })()`, quoted))
}

const (
	foundText = `document.querySelector("#flame-0 .found").textContent`
	hits      = `[...document.querySelectorAll("#flame-0 g.frame rect")].filter(r => r.getAttribute("fill") === "#e47be4").length`
	rootWidth = `[...document.querySelectorAll("#flame-0 g.frame")].map(g => [g.getAttribute("name"), +g.getAttribute("width")])`
)

func testSearch(t *testing.T, ctx context.Context) {
	for i := range hostileNames {
		term := fmt.Sprintf("frame%02d", i)
		search(t, ctx, term)
		if got := eval[string](t, ctx, foundText); !strings.HasPrefix(got, "1 found: ") {
			t.Errorf("search for %s says %q", term, got)
		}
		if n := eval[int](t, ctx, hits); n != 1 {
			t.Errorf("search for %s lights %d boxes", term, n)
		}
	}
	search(t, ctx, ".*")
	if got := eval[string](t, ctx, foundText); !strings.HasPrefix(got, "0 found") {
		t.Errorf("the term is literal, but .* gave %q", got)
	}
	search(t, ctx, "")
	if n := eval[int](t, ctx, hits); n != 0 {
		t.Errorf("an emptied search leaves %d boxes lit", n)
	}
}

// widthOf is the drawn width of the first box whose name contains part; -1 is none.
func widthOf(t *testing.T, ctx context.Context, part string) float64 {
	t.Helper()
	return eval[float64](t, ctx, fmt.Sprintf(`(() => { const g = [...document.querySelectorAll("#flame-0 g.frame")].find(g => g.getAttribute("name").includes(%q)); return g ? +g.getAttribute("width") : -1; })()`, part))
}

func click(t *testing.T, ctx context.Context, part string) {
	t.Helper()
	eval[bool](t, ctx, fmt.Sprintf(`(() => { const g = [...document.querySelectorAll("#flame-0 g.frame")].find(g => g.getAttribute("name").includes(%q)); g.dispatchEvent(new MouseEvent("click", {bubbles: true})); return true; })()`, part))
}

func testZoom(t *testing.T, ctx context.Context) {
	full, before := widthOf(t, ctx, "all"), widthOf(t, ctx, "processInboundMsg")
	if before <= 0 || before >= full*0.9 {
		t.Fatalf("processInboundMsg is %g wide of %g before zooming", before, full)
	}
	click(t, ctx, "processInboundMsg")
	if got := widthOf(t, ctx, "processInboundMsg"); got < full*0.99 {
		t.Errorf("zoomed box is %g wide, want all of %g", got, full)
	}
	if got := widthOf(t, ctx, "frame00"); got != -1 {
		t.Errorf("a box outside the zoom is still drawn, %g wide", got)
	}
	run(t, ctx, chromedp.Click(chromedp.CSS("#flame-0 button.reset")))
	if got := widthOf(t, ctx, "processInboundMsg"); got < before*0.99 || got > before*1.01 {
		t.Errorf("after reset the box is %g wide, want %g", got, before)
	}
}

func testKeyboard(t *testing.T, ctx context.Context) {
	run(t, ctx, chromedp.Focus(chromedp.CSS("#flame-0 svg")), chromedp.KeyEvent("\u0301"), // arrow down, as kb spells it
		chromedp.KeyEvent("\u0301"))
	status := eval[string](t, ctx, `document.querySelector("#flame-0 .status").textContent`)
	if strings.HasPrefix(status, "all") || !strings.Contains(status, "   ") {
		t.Errorf("two steps down say %q", status)
	}
	if n := eval[int](t, ctx, `document.querySelectorAll("#flame-0 g.current").length`); n != 1 {
		t.Errorf("%d boxes are current", n)
	}
	run(t, ctx, chromedp.KeyEvent("\r"))
	if w, full := eval[float64](t, ctx, `+document.querySelector("#flame-0 g.current").getAttribute("width")`), widthOf(t, ctx, "all"); w < full*0.99 {
		t.Errorf("Enter did not zoom: %g of %g", w, full)
	}
	run(t, ctx, chromedp.KeyEvent("\u001b"))
	status = eval[string](t, ctx, `document.querySelector("#flame-0 .status").textContent`)
	if !strings.HasPrefix(status, "all") {
		t.Errorf("Escape says %q", status)
	}
}

func testSort(t *testing.T, ctx context.Context) {
	column := `[...document.querySelectorAll("#table-locks > tbody > tr:first-child > td:nth-child(2)")].map(c => +c.dataset.sort)`
	button := "#table-locks th:nth-child(2) button"
	for _, up := range []bool{false, true} {
		run(t, ctx, chromedp.Click(chromedp.CSS(button)))
		values := eval[[]float64](t, ctx, column)
		if len(values) < 5 {
			t.Fatalf("only %d rows", len(values))
		}
		for i := 1; i < len(values); i++ {
			if up && values[i] < values[i-1] || !up && values[i] > values[i-1] {
				t.Errorf("ascending=%v: row %d out of order: %v", up, i, values)
				break
			}
		}
	}
	if got := eval[string](t, ctx, `document.querySelector("#table-locks th:nth-child(2)").getAttribute("aria-sort")`); got != "ascending" {
		t.Errorf("aria-sort is %q", got)
	}
}

func testUnfoldAndFilter(t *testing.T, ctx context.Context) {
	run(t, ctx, chromedp.Click(chromedp.CSS("#table-locks button.unfold")))
	if n := eval[int](t, ctx, `document.querySelectorAll("#table-locks tr.more:not([hidden])").length`); n != 1 {
		t.Errorf("one click unfolds %d rows", n)
	}
	run(t, ctx, chromedp.Click(chromedp.CSS("#table-locks button.unfold")))
	if n := eval[int](t, ctx, `document.querySelectorAll("#table-locks tr.more:not([hidden])").length`); n != 0 {
		t.Errorf("a second click leaves %d rows unfolded", n)
	}
	if !eval[bool](t, ctx, `!!document.querySelector("input[data-filter=table-locks]")`) {
		return // a short table has no filter
	}
	run(t, ctx, chromedp.SendKeys(chromedp.CSS("input[data-filter=table-locks]"), "frame2"))
	if n := eval[int](t, ctx, `document.querySelectorAll("#table-locks > tbody:not([hidden])").length`); n != 6 {
		t.Errorf("the filter frame2 shows %d rows, want 6", n)
	}
	eval[bool](t, ctx, `(() => { const i = document.querySelector("input[data-filter=table-locks]"); i.value = ""; i.dispatchEvent(new Event("input")); return true; })()`)
	if n := eval[int](t, ctx, `document.querySelectorAll("#table-locks > tbody[hidden]").length`); n != 0 {
		t.Errorf("an emptied filter hides %d rows", n)
	}
}

// testSides: what is gone shows on the baseline's side only, what is new on the candidate's.
func testSides(t *testing.T, ctx context.Context) {
	for _, c := range []struct {
		side      string
		gone, new bool
	}{{"baseline", true, false}, {"candidate", false, true}, {"both", true, true}} {
		run(t, ctx, chromedp.Click(chromedp.CSS(fmt.Sprintf(`#flame-0 input[value=%s]`, c.side))))
		if got := widthOf(t, ctx, "oldPath") > 0; got != c.gone {
			t.Errorf("side %s: gone stack drawn: %v", c.side, got)
		}
		if got := widthOf(t, ctx, "Fsync") > 0; got != c.new {
			t.Errorf("side %s: new stack drawn: %v", c.side, got)
		}
	}
	eval[bool](t, ctx, `(() => { const g = [...document.querySelectorAll("#flame-0 g.frame")].find(g => g.getAttribute("name").includes("lockSlow")); g.dispatchEvent(new MouseEvent("mouseover", {bubbles: true, clientX: 300, clientY: 300})); return true; })()`)
	if got := eval[string](t, ctx, `document.querySelector(".tip:not([hidden])").textContent`); !strings.Contains(got, "30.0 → 101 µs/op (+71.0 µs/op, 3.37×)") && !strings.Contains(got, "30.0 µs/op → 101 µs/op (+71.0 µs/op, 3.37×)") {
		t.Errorf("tooltip says %q", got)
	}
}

// testPrint: paper shows whole boxes at once; nothing waits there for an animation.
func testPrint(t *testing.T, ctx context.Context) {
	const print = `(() => {
		for (const input of document.querySelectorAll("#flame-0 input[type=radio]")) { input.checked = true; input.dispatchEvent(new Event("change")); }
		document.querySelector("#flame-0 button.reset").click();
		dispatchEvent(new Event("beforeprint"));
		const frames = [...document.querySelectorAll(".flame g.frame")];
		const half = frames.filter((g) => !(Math.abs(g.getAttribute("width") - g.querySelector("rect").getAttribute("width")) < 0.01));
		dispatchEvent(new Event("afterprint"));
		const first = document.querySelector("#flame-0 input[type=radio]");
		if (first) { first.checked = true; first.dispatchEvent(new Event("change")); }
		return [frames.length, half.length, document.querySelectorAll(".flame").length - document.querySelectorAll(".flame svg").length];
	})()`
	if n := eval[[]int](t, ctx, print); n[0] < 10 || n[1] > 0 || n[2] > 0 {
		t.Errorf("of %d boxes %d are half drawn on paper, of the graphs %d not at all", n[0], n[1], n[2])
	}
}

// testLayout: the page never scrolls sideways. Whether it is good to look at
// is for people: -screenshots writes what they need.
func testLayout(t *testing.T, ctx context.Context, name string) {
	unfold := `document.querySelector("#table-locks button.unfold").click(), true`
	eval[bool](t, ctx, unfold)
	defer eval[bool](t, ctx, unfold)
	defer run(t, ctx, chromedp.EmulateViewport(1280, 900))
	defer chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	for _, width := range []int64{1280, 800} {
		for _, scheme := range []string{"light", "dark", "print"} {
			run(t, ctx, chromedp.EmulateViewport(width, 900))
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
			if scheme == "print" {
				media = emulation.SetEmulatedMediaParams{Media: "print"}
			}
			if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
				t.Fatal(err)
			}
			if w := eval[int64](t, ctx, `document.documentElement.scrollWidth`); w > width {
				t.Errorf("the page is %d px wide in a window of %d", w, width)
			}
			if *screenshots == "" {
				continue
			}
			run(t, ctx, chromedp.Sleep(300*time.Millisecond)) // the graph redraws for the new width
			png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
