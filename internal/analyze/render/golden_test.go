package render

import (
	"bytes"
	"flag"
	"html"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var extensions = map[Format]string{Text: "txt", Markdown: "md", JSON: "json", CSV: "csv", HTML: "html", SVG: "svg", Folded: "folded", Speedscope: "speedscope.json"}

func reproduce() []string { return []string{"contend diff v2.11 v2.12 --format markdown"} }

// render writes the fixture in one format.
func render(t *testing.T, command string, f Format, o Options) []byte {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch command {
	case "report":
		err = Report(&out, fixtureReport("v2.11", 1), f, o)
	case "diff":
		err = Diff(&out, fixtureDiff(), f, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestGolden(t *testing.T) {
	for _, command := range []string{"report", "diff"} {
		for _, f := range Formats() {
			t.Run(command+"/"+string(f), func(t *testing.T) {
				o := Options{Reproduce: reproduce()}
				if command == "diff" {
					o.Experiment = fixtureExperiment()
				}
				golden(t, command+"."+extensions[f], render(t, command, f, o))
			})
		}
		for _, by := range []string{"boundary", "root", "waker", "holder", "pair", "instance"} {
			t.Run(command+"/by-"+by, func(t *testing.T) {
				golden(t, command+"-"+by+".txt", render(t, command, Text, Options{By: by, Limit: 5, Command: "contend " + command + " v2.11"}))
			})
		}
	}
}

// withoutBundle takes out what is kept in page/dist already.
func withoutBundle(page []byte) []byte {
	for _, name := range []string{"page.js", "page.css", "licenses.txt"} {
		file := pageFile(name)
		for old, new := range map[string]string{file: name, html.EscapeString(file): name, template.HTMLEscapeString(file): name} {
			page = bytes.ReplaceAll(page, []byte(old), []byte("["+new+"]"))
		}
	}
	return policyHash.ReplaceAll(page, []byte("sha256-…"))
}

// policyHash is a hash in the page's policy, as it stands escaped in the attribute.
var policyHash = regexp.MustCompile(`sha256-[^=]*=`)

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if strings.HasSuffix(name, ".html") {
		got = withoutBundle(got)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs (-want +got; -update accepts it):\n%s", path, cmp.Diff(string(want), string(got)))
	}
}
