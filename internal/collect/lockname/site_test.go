package lockname

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"contend/internal/collect/symbolize"
)

// kinds are the ways to build a target that lay it out differently.
var kinds = map[string][]string{
	"plain": nil,
	// Without the source, too.
	"stripped":     {"-ldflags=-s -w", "-trimpath"},
	"pie stripped": {"-buildmode=pie", "-ldflags=-s -w", "-trimpath"},
	"pie":          {"-buildmode=pie"},
	"trimpath":     {"-trimpath"},
	// DWARF 4, as up to Go 1.24.
	"dwarf4": nil,
	// By the system's linker, which lays sections out anew.
	"external":     {"-ldflags=-linkmode=external"},
	"uncompressed": {"-ldflags=-compressdwarf=false"},
}

func build(t testing.TB, kind string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "positions")
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, kinds[kind]...), "./testdata/positions")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if kind == "external" {
		if _, err := exec.LookPath("gcc"); err != nil {
			t.Skip("external linking needs gcc, which is not installed")
		}
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if kind == "dwarf4" {
		cmd.Env = append(cmd.Env, "GOEXPERIMENT=nodwarf5")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", kind, err, out)
	}
	return path
}

// stacks runs the target and returns the stack of each goroutine that waits, as
// ELF addresses, by the function in main that waits.
func stacks(t testing.TB, b *symbolize.Binary, path string) map[string][]uint64 {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "GOTRACEBACK=system")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		t.Fatal("the target did not end by the signal")
	}
	var at uint64
	if _, err := fmt.Sscanf(string(out), "main.main %v", &at); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	main, err := b.Func("main.main")
	if err != nil {
		t.Fatal(err)
	}
	bias := at - main.Entry
	pc := regexp.MustCompile(` pc=0x([0-9a-f]+)`)
	label := regexp.MustCompile(`^main\.([a-zA-Z]+)\(`)
	found := map[string][]uint64{}
	for g := range strings.SplitSeq(stderr.String(), "\n\n") {
		if !strings.HasPrefix(g, "goroutine ") || !strings.Contains(g, "sema") {
			continue
		}
		var pcs []uint64
		name := ""
		for line := range strings.Lines(g) {
			if strings.HasPrefix(line, "created by") {
				break
			}
			if m := label.FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			if m := pc.FindStringSubmatch(line); m != nil {
				v, err := strconv.ParseUint(m[1], 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				if v -= bias; len(pcs) == 0 || pcs[len(pcs)-1] != v {
					pcs = append(pcs, v)
				}
			}
		}
		if name != "" {
			found[name] = pcs
		}
	}
	return found
}

// wanted reads the names that the target's source asks for.
func wanted(t testing.TB) map[string]string {
	t.Helper()
	src, err := os.ReadFile("testdata/positions/main.go")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^func (\w+)\(.*// (.+)$`).FindAllStringSubmatch(string(src), -1) {
		want[m[1]] = m[2]
	}
	return want
}

// TestSites names the lock of every position, in every kind of binary that has
// debug information.
func TestSites(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			path := build(t, kind)
			b, err := symbolize.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			found := stacks(t, b, path)
			var all [][]uint64
			for _, pcs := range found {
				all = append(all, pcs)
			}
			n := New(b, all, nil)
			defer n.Close()
			if (n.Err() != nil) != strings.Contains(kind, "stripped") {
				t.Errorf("debug information: %v", n.Err())
			}
			want := wanted(t)
			if len(want) < 30 {
				t.Fatalf("only %d wanted names", len(want))
			}
			unnamed := 0
			for site, name := range want {
				pcs, ok := found[site]
				if !ok {
					t.Errorf("%s does not wait", site)
					continue
				}
				got, err := n.Site(pcs)
				if name == "-" {
					name = ""
				}
				if got.Text == "" && strings.Contains(kind, "stripped") && !strings.HasPrefix(site, "method") { // its sites name it
					unnamed++
					continue
				}
				if got.Text != name {
					t.Errorf("%s: named %q, want %q (%v)", site, got.Text, name, err)
				}
			}
			t.Logf("%d of %d unnamed", unnamed, len(want))
		})
	}
}
