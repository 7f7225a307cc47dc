package main

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"contend/internal/collect/livetest"
)

// The example workflow of docs/ci.md: every step that runs contend runs, with a
// small target in place of the brokers, and short windows.
func TestCIWorkflow(t *testing.T) {
	livetest.Require(t)
	text, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/ci.md has no workflow")
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	if err := yaml.Unmarshal(block[1], &workflow); err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	for _, side := range []string{"baseline", "candidate"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(work, "broker-"+side), "./testdata/convoy").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	tools := t.TempDir() // contend, and a sudo for where there is none
	if err := os.Symlink(contendBinary(t), filepath.Join(tools, "contend")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "sudo"), []byte("#!/bin/sh\nshift\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	summary := filepath.Join(work, "summary.md")
	ran := 0
	for _, step := range workflow.Jobs["contend"].Steps {
		if !strings.Contains(step.Run, "contend ") {
			continue
		}
		ran++
		cmd := exec.Command("bash", "-e", "-c", step.Run)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "PAIRS=6", "WINDOW=200ms", "LOAD=", "GITHUB_STEP_SUMMARY="+summary)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("step %q: %v\n%s", step.Name, err, out)
		}
	}
	if ran < 5 {
		t.Errorf("only %d steps ran contend", ran)
	}
	if b, err := os.ReadFile(summary); err != nil || !strings.Contains(string(b), "6 pairs") {
		t.Errorf("the job summary: %v\n%s", err, b)
	}
	b, err := os.ReadFile(filepath.Join(work, "contend.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Suites []struct {
			Name  string `xml:"name,attr"`
			Tests int    `xml:"tests,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b, &suites); err != nil || len(suites.Suites) != 2 || suites.Suites[0].Tests != 3 {
		t.Errorf("JUnit: %v\n%s", err, b)
	}
}
