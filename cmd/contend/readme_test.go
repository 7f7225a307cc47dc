package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"contend/internal/collect/livetest"
)

// Every command block of the README runs as it stands, on a real nats-server
// under load where it names one. Two things differ: the experiment is a smoke,
// by its own variable, and `make test` is what runs this test.
func TestREADME(t *testing.T) {
	livetest.Require(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 3 {
		t.Fatalf("only %d command blocks found", len(blocks))
	}
	work := t.TempDir()
	for _, block := range blocks {
		script := block[1]
		t.Run(strings.SplitN(script, "\n", 2)[0], func(t *testing.T) {
			if strings.Contains(script, "nats-server") {
				_, load, _ := nats(t)
				driver := load(60)
				if err := driver.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_ = driver.Process.Kill()
					_ = driver.Wait() // killed
				})
			}
			// A new shell has neither the folder nor the PATH that an earlier
			// block left; results go to a folder of the test's own.
			script := "set -e\ncd " + root + "\n" + strings.ReplaceAll(script, "make test\n", "make -n test >/dev/null\n")
			if strings.Contains(script, "export PATH") {
				script = regexp.MustCompile(`(?m)^.*export PATH.*$`).ReplaceAllString(script, "$0\ncd "+work)
			} else if !strings.Contains(script, "make ") {
				script = strings.Replace(script, "cd "+root, "cd "+work, 1)
			}
			cmd := exec.Command("bash", "-c", script)
			cmd.Env = append(os.Environ(), "EXPERIMENT=--quick -o "+filepath.Join(work, "handover"),
				"PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Errorf("%v", err)
			}
		})
	}
	for _, want := range []string{"handover/report.md", "handover/report.html", "handover/diff.svg", "diff.html", "nats.svg"} {
		if info, err := os.Stat(filepath.Join(work, want)); err != nil || info.Size() == 0 {
			t.Errorf("%s was not made: %v", want, err)
		}
	}
}
