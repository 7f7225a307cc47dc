package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"contend/internal/experiment"
)

// The committed reports are what today's code makes of the committed
// recordings: rendering an experiment again changes nothing.
func TestCommittedReports(t *testing.T) {
	dirs, err := filepath.Glob("../../reports/*/" + experiment.StateFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) == 0 {
		t.Fatal("no experiment is committed under reports/")
	}
	for _, state := range dirs {
		dir := filepath.Dir(state)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			committed, err := os.ReadFile(filepath.Join(dir, "report.md"))
			if err != nil {
				t.Fatal(err)
			}
			command := regexp.MustCompile(`(?m)^    (contend experiment .*)$`).FindSubmatch(committed)
			if command == nil {
				t.Fatal("the report does not say what command made it")
			}
			r, err := experiment.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			out := t.TempDir()
			if os.Getenv("UPDATE_REPORTS") != "" {
				out = dir
			}
			if err := r.WriteReports(out, string(command[1]), io.Discard); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"report.md", "report.json", "report.html", "diff.svg"} {
				made, err := os.ReadFile(filepath.Join(out, name))
				if err != nil {
					t.Fatal(err)
				}
				if committed, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(committed, made) {
					t.Errorf("%s is not what the recordings give today (%v): make reports", name, err)
					if name == "report.md" {
						t.Log(cmp.Diff(string(committed), string(made)))
					}
				}
			}
		})
	}
}

// The README's excerpt is what the command prints of the committed experiment.
func TestREADMEExcerpt(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	excerpt := regexp.MustCompile("(?s)```text\n(.*?)```").FindSubmatch(text)
	if excerpt == nil {
		t.Fatal("the README has no excerpt")
	}
	var stdout, stderr bytes.Buffer
	t.Chdir("../..")
	if code := run(t.Context(), []string{"diff", "reports/handover/baseline", "reports/handover/batched"}, nil, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if !bytes.HasPrefix(stdout.Bytes(), excerpt[1]) {
		t.Errorf("the README's excerpt is not how the output begins: %s", cmp.Diff(string(excerpt[1]), stdout.String()))
	}
}
