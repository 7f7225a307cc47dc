package main

import (
	"encoding/xml"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"contend/internal/collect/livetest"
)

// The example workflow of docs/ci.md: every step that has to do with contend runs,
// its installation included, with a small broker, and short windows. A candidate
// that holds its lock ten times longer must fail at the gate, and a faster one pass.
func TestCIWorkflow(t *testing.T) {
	livetest.Require(t)
	steps := workflowSteps(t)
	work := t.TempDir()
	tools := filepath.Join(work, "bin") // where the workflow installs contend, and a sudo for where there is none
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	const sudo = "#!/bin/sh\nexec \"$@\"\n"
	if err := os.WriteFile(filepath.Join(tools, "sudo"), []byte(sudo), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(work, "contend")); err != nil {
		t.Fatal(err)
	}
	const testdata = "../../internal/experiment/testdata/"
	if out, err := exec.Command("go", "build", "-o", work, testdata+"broker", testdata+"load").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	listen, monitor := freeAddress(t), freeAddress(t)
	for side, hold := range map[string]string{"baseline": "20us", "candidate": "200us"} {
		script := "#!/bin/sh\nexec ./broker -listen " + listen + " -monitor " + monitor + " -hold " + hold + "\n"
		if err := os.WriteFile(filepath.Join(work, "broker-"+side), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	summary := filepath.Join(work, "summary.md")
	run := func(step workflowStep) (string, error) {
		cmd := exec.Command("bash", "-e", "-c", step.Run)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "BIN="+tools, "PAIRS=6", "WARMUP=100ms", "WINDOW=300ms",
			"LOAD=./load -connect "+listen, "READY="+listen, "OPS=http://"+monitor+"/stats#topic.answered=message",
			"LOCK=main.(*topic).mu", "GITHUB_STEP_SUMMARY="+summary)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	gate := steps[len(steps)-1]
	for _, step := range steps[:len(steps)-1] {
		if out, err := run(step); err != nil {
			t.Fatalf("step %q: %v\n%s", step.Name, err, out)
		}
	}
	out, err := run(gate)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("a lock held ten times longer: the step %q ended with %v, want exit status 3\n%s", gate.Name, err, out)
	}
	if b, err := os.ReadFile(summary); err != nil || !strings.Contains(string(b), "6 pairs") || !strings.Contains(string(b), "REGRESSED") {
		t.Errorf("the job summary: %v\n%s", err, b)
	}
	checkJUnit(t, filepath.Join(work, "contend.xml"))

	// The other way round the candidate is the faster one.
	at := func(name string) string { return filepath.Join(work, "contention", name) }
	for _, m := range [][2]string{{"baseline", "x"}, {"candidate", "baseline"}, {"x", "candidate"}} {
		if err := os.Rename(at(m[0]), at(m[1])); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := run(gate); err != nil || strings.Contains(out, "undecided") {
		t.Errorf("a faster candidate: %v\n%s", err, out)
	}
}

type workflowStep struct{ Name, Run string }

// workflowSteps are the example's steps that run contend, or install it.
func workflowSteps(t *testing.T) (steps []workflowStep) {
	t.Helper()
	text, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/ci.md has no workflow")
	}
	var workflow struct {
		Jobs map[string]struct{ Steps []workflowStep }
	}
	if err := yaml.Unmarshal(block[1], &workflow); err != nil {
		t.Fatal(err)
	}
	for _, s := range workflow.Jobs["contend"].Steps {
		if strings.Contains(s.Run, "contend ") {
			steps = append(steps, s)
		}
	}
	if len(steps) != 4 {
		t.Fatalf("%d steps run contend", len(steps))
	}
	return steps
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func checkJUnit(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b, &suites); err != nil || len(suites.Suites) != 2 || suites.Suites[0].Tests != 3 || suites.Suites[0].Failures != 3 {
		t.Errorf("JUnit: %v\n%s", err, b)
	}
}
