// Package matrix holds what contend captures to a truth known by design, over
// every way in which the target can have been built: one program, by each
// toolchain, with each set of flags. The Makefile's target matrix runs all of it,
// and the tests a few cells.
package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Toolchains are the releases that the matrix covers: of each minor the first and
// the last, or those between which the runtime's structs changed.
var Toolchains = []string{
	"go1.22.0", "go1.22.12", "go1.23.0", "go1.23.12", "go1.24.0", "go1.24.13",
	"go1.25.8", "go1.26.8", "go1.27.3",
}

// Build is a way to build the target.
type Build struct {
	Name string
	Args []string
	Cgo  bool
	PGO  bool // with a profile of its own in which the scheduler is hot
	// Devel has the build say that a development version made it, of which no table
	// has the runtime's layout.
	Devel bool
}

// Builds are the columns of the matrix.
var Builds = []Build{
	{Name: "plain"},
	{Name: "stripped", Args: []string{"-ldflags=-s -w"}},
	{Name: "trimpath", Args: []string{"-trimpath"}},
	{Name: "pie", Args: []string{"-buildmode=pie", "-ldflags=-s -w"}},
	{Name: "cgo", Args: []string{"-tags=withcgo", "-ldflags=-linkmode=external"}, Cgo: true},
	{Name: "static", Args: []string{"-tags=withcgo,netgo,osusergo", "-ldflags=-linkmode=external -extldflags=-static"}, Cgo: true},
	{Name: "race", Args: []string{"-race"}, Cgo: true},
	{Name: "pgo", PGO: true},
	{Name: "devel", Devel: true},
}

// BuildNamed finds one of Builds.
func BuildNamed(name string) (Build, bool) {
	i := slices.IndexFunc(Builds, func(b Build) bool { return b.Name == name })
	if i < 0 {
		return Build{}, false
	}
	return Builds[i], true
}

// Maker builds targets.
type Maker struct {
	Source  string // folder of the target's module
	Scratch string // where targets are kept
	Fetch   bool   // let the go command fetch toolchains that are not at hand
}

// ErrNotAtHand says that a toolchain is not on this machine.
var ErrNotAtHand = errors.New("toolchain not at hand")

// Have checks that a toolchain can be used: it is the one that runs, or the go command
// has it.
func (m *Maker) Have(ctx context.Context, toolchain string) error {
	out, err := m.command(ctx, toolchain, "version").CombinedOutput()
	if err == nil && bytes.Contains(out, []byte(toolchain+" ")) {
		return nil
	}
	return ErrNotAtHand
}

// command is a go command of a toolchain.
func (m *Maker) command(ctx context.Context, toolchain string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.Source
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if toolchain != runtime.Version() {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+toolchain)
	}
	if !m.Fetch {
		cmd.Env = append(cmd.Env, "GOPROXY=off")
	}
	return cmd
}

// Make builds the target, unless it is there, and returns its path.
func (m *Maker) Make(ctx context.Context, toolchain string, b Build) (string, error) {
	exe := m.path(toolchain, b)
	if _, err := os.Stat(exe); err == nil {
		return exe, nil
	}
	args := append([]string{"build", "-o", exe}, b.Args...)
	if b.PGO {
		profile, err := m.profile(ctx, toolchain)
		if err != nil {
			return "", err
		}
		args = append(args, "-pgo="+profile)
	}
	if b.Devel {
		args = append(args, "-ldflags=-X runtime.buildVersion="+version.Lang(toolchain)+"-devel_0123456789")
	}
	cmd := m.command(ctx, toolchain, append(args, ".")...)
	cgo := "CGO_ENABLED=0"
	if b.Cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(cmd.Env, cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s with %s: %w: %s", b.Name, toolchain, err, lastLine(out))
	}
	return exe, nil
}

func (m *Maker) path(toolchain string, b Build) string {
	return filepath.Join(m.Scratch, toolchain+"-"+b.Name)
}

// profile has the plain build profile itself.
func (m *Maker) profile(ctx context.Context, toolchain string) (string, error) {
	path := filepath.Join(m.Scratch, toolchain+".pprof")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	exe, err := m.Make(ctx, toolchain, Builds[0])
	if err != nil {
		return "", err
	}
	t, err := start(ctx, exe)
	if err != nil {
		return "", err
	}
	defer t.stop()
	if _, err = t.do("profile " + path); err != nil {
		return "", err
	}
	return path, m.heat(ctx, toolchain, path)
}

// heat adds to a profile that semrelease1 spends its time calling dequeue, as that of a
// broker with contended locks says: the compiler then inlines it, so that no probe
// can be put on it.
func (m *Maker) heat(ctx context.Context, toolchain, path string) error {
	out, err := m.command(ctx, toolchain, "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src/runtime/sema.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	line := func(with string) int64 {
		before, _, _ := strings.Cut(string(text), with)
		return int64(strings.Count(before, "\n") + 1)
	}
	p, err := readProfile(path)
	if err != nil {
		return err
	}
	var stack []*profile.Location
	for _, f := range []struct {
		name, start, at string
	}{
		{"runtime.(*semaRoot).dequeue", "func (root *semaRoot) dequeue(", "ps := &root.treap"},
		{"runtime.semrelease1", "func semrelease1(", ":= root.dequeue(addr)"},
	} {
		function := &profile.Function{
			ID: uint64(len(p.Function) + 1), Name: f.name, SystemName: f.name, Filename: source, StartLine: line(f.start),
		}
		location := &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{{Function: function, Line: line(f.at)}}}
		p.Function, p.Location = append(p.Function, function), append(p.Location, location)
		stack = append(stack, location)
	}
	most := make([]int64, len(p.SampleType))
	for _, s := range p.Sample {
		for i, v := range s.Value {
			most[i] += v
		}
	}
	p.Sample = append(p.Sample, &profile.Sample{Location: stack, Value: most})
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(p.Write(f), f.Close())
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
