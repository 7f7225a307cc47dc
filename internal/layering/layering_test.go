// Package layering holds the rules of docs/architecture.md: which package may
// import which.
package layering

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

type pkg struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
	Dir        string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles,Dir", "contend/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.ImportPath, "/testdata/") {
			all = append(all, p)
		}
	}
	if len(all) < 10 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// rooms maps each room to the rooms it may import, beside its own inside. The
// longest prefix wins.
var rooms = map[string][]string{
	"contend/cmd":                     {"contend/internal", "contend/bpf"},
	"contend/bpf":                     {},
	"contend/internal/layering":       {},
	"contend/internal/recording":      {},
	"contend/internal/handover":       {},
	"contend/internal/student":        {},
	"contend/internal/host":           {"contend/internal/recording"},
	"contend/internal/analyze":        {"contend/internal/recording", "contend/internal/student"},
	"contend/internal/analyze/render": {"contend/internal/analyze", "contend/internal/recording"},
	"contend/internal/input":          {"contend/internal/analyze", "contend/internal/recording"},
	"contend/internal/trial":          {"contend/internal/analyze", "contend/internal/input", "contend/internal/recording"},
	"contend/internal/workload":       {"contend/internal/handover", "contend/internal/recording"},
	"contend/internal/soak":           {"contend/internal/collect", "contend/internal/recording"},
	"contend/internal/cost":           {"contend/internal/collect", "contend/internal/student"},
	"contend/internal/matrix":         {"contend/internal/collect", "contend/internal/recording"},
	"contend/internal/collect":        {"contend/bpf", "contend/internal/recording", "contend/internal/student"},
	"contend/internal/experiment":     {"contend/internal/collect", "contend/internal/workload", "contend/internal/analyze", "contend/internal/host", "contend/internal/input", "contend/internal/recording"},
}

func under(path, room string) bool { return path == room || strings.HasPrefix(path, room+"/") }

func roomOf(path string) string {
	best := ""
	for room := range rooms {
		if under(path, room) && len(room) > len(best) {
			best = room
		}
	}
	return best
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		room := roomOf(p.ImportPath)
		if room == "" {
			t.Errorf("%s is in no room of docs/architecture.md", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !under(imp, "contend") || under(imp, room) && roomOf(imp) == room {
				continue
			}
			allowed := false
			for _, a := range rooms[room] {
				allowed = allowed || under(imp, a)
			}
			if !allowed {
				t.Errorf("%s imports %s: %s may only import %v", p.ImportPath, imp, room, rooms[room])
			}
		}
	}
}

// The analysis is pure: nothing in it reaches the operating system, and nothing
// but cmd writes to standard output or ends the process.
func TestPurity(t *testing.T) {
	system := map[string]bool{"os": true, "os/exec": true, "os/signal": true, "net": true, "net/http": true, "syscall": true, "golang.org/x/sys/unix": true}
	for _, p := range packages(t) {
		if under(p.ImportPath, "contend/internal/analyze") {
			for _, imp := range p.Imports {
				if system[imp] {
					t.Errorf("%s imports %s: the analysis touches no live system", p.ImportPath, imp)
				}
			}
		}
	}
}
