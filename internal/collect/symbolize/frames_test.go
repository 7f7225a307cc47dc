package symbolize

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

// runtimeStack is one stack as the target walked it, and what its runtime said.
type runtimeStack struct {
	name   string
	pcs    []uint64
	frames []string // "function file:line", leaf first
	entry  []uint64 // of the frames
}

func parseStacks(t *testing.T, out string) []runtimeStack {
	t.Helper()
	var stacks []runtimeStack
	for line := range strings.Lines(out) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if kind == "stack" {
			stacks = append(stacks, runtimeStack{name: rest})
			continue
		}
		if kind == "end" {
			return stacks
		}
		s := &stacks[len(stacks)-1]
		var addr uint64
		if _, err := fmt.Sscanf(rest, "%x", &addr); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if kind == "pc" {
			s.pcs = append(s.pcs, addr)
			continue
		}
		f := strings.Split(rest, "\t")
		s.frames = append(s.frames, fmt.Sprintf("%s %s:%s", f[2], f[3], f[1]))
		s.entry = append(s.entry, addr)
	}
	t.Fatalf("output breaks off: %.200q", out)
	return nil
}

// TestFramesAgreeWithRuntime holds the frames of whole stacks against
// runtime.CallersFrames in the target itself, for every way to build it.
func TestFramesAgreeWithRuntime(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind)
			stacks := parseStacks(t, run(t, build(t, kind)))
			if len(stacks) < 19 {
				t.Errorf("only %d stacks", len(stacks))
			}
			seen := checkStacks(t, b, stacks)
			for _, what := range []string{"inlined", "wrapper", "wrapper under panic", "generic"} {
				if !seen[what] {
					t.Errorf("no frame was %s: the target does not test it", what)
				}
			}
		})
	}
}

func checkStacks(t *testing.T, b *Binary, stacks []runtimeStack) (seen map[string]bool) {
	mainFunc, err := b.Func("main.main")
	if err != nil {
		t.Fatal(err)
	}
	bias := biasOf(t, stacks, mainFunc)
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "n", Unit: "count"}}}
	in := NewInterner(p, b, bias)
	seen = make(map[string]bool)
	for _, s := range stacks {
		locs := in.Stack(s.pcs, true)
		p.Sample = append(p.Sample, &profile.Sample{Location: locs, Value: []int64{1}})
		want := s.frames[:len(s.frames)-1] // without runtime.goexit
		if diff := cmp.Diff(want, printed(locs)); diff != "" {
			t.Errorf("stack %q (-runtime +ours):\n%s", s.name, diff)
		}
		note(b, s, bias, seen)
		for i, loc := range locs[:len(locs)-1] {
			if loc.Mapping == nil {
				t.Errorf("stack %q: location %d has no mapping", s.name, i)
			}
		}
	}
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
	if err := p.Write(&bytes.Buffer{}); err != nil {
		t.Error(err)
	}
	return seen
}

// biasOf compares where main.main is with where the target says it is.
func biasOf(t *testing.T, stacks []runtimeStack, mainFunc Func) uint64 {
	for _, s := range stacks {
		for i, f := range s.frames {
			if strings.HasPrefix(f, "main.main ") {
				return s.entry[i] - mainFunc.Entry
			}
		}
	}
	t.Fatal("no stack has main.main")
	return 0
}

func printed(locs []*profile.Location) []string {
	var frames []string
	for _, loc := range locs {
		for _, l := range loc.Line {
			frames = append(frames, fmt.Sprintf("%s %s:%d", PrintedName(l.Function.Name), l.Function.Filename, l.Line))
		}
	}
	return frames
}

// note records which hard cases a stack holds, and checks its entry addresses.
func note(b *Binary, s runtimeStack, bias uint64, seen map[string]bool) {
	callee := ""
	for _, pc := range s.pcs {
		for _, f := range b.allFrames(pc - 1 - bias) {
			seen["inlined"] = seen["inlined"] || f.Inlined
			seen["wrapper"] = seen["wrapper"] || f.wrapper && !isPanic(callee)
			seen["wrapper under panic"] = seen["wrapper under panic"] || f.wrapper && isPanic(callee)
			seen["generic"] = seen["generic"] || f.Func != f.symbol
			callee = f.symbol
		}
	}
}

func TestFrameOfAddress(t *testing.T) {
	b := open(t, "stripped")
	main, err := b.Func("main.main")
	if err != nil {
		t.Fatal(err)
	}
	frames := b.Frames(main.Entry)
	if len(frames) != 1 || frames[0].Func != "main.main" || frames[0].Inlined || frames[0].Entry != main.Entry {
		t.Errorf("entry of main.main: %+v", frames)
	}
	source, err := os.ReadFile(filepath.Join("testdata", "stacks", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	line := 1 + bytes.Count(source[:bytes.Index(source, []byte("func main() {"))], []byte("\n"))
	if frames[0].StartLine != line || frames[0].Line != line {
		t.Errorf("main.main starts at line %d; got %+v", line, frames[0])
	}
	for _, addr := range []uint64{0, 1, b.module.text - 1, b.module.text + uint64(b.table.entryOff(b.table.nfunc)), 1 << 63, ^uint64(0)} {
		if frames := b.Frames(addr); frames != nil {
			t.Errorf("address %#x outside the code: %+v", addr, frames)
		}
	}
}

func TestPrintedName(t *testing.T) {
	for symbol, want := range map[string]string{
		"main.f":                                  "main.f",
		"main.f[go.shape.int]":                    "main.f[...]",
		"main.(*list[go.shape.[]uint8]).each":     "main.(*list[...]).each",
		"main.f[go.shape.map[string]int,a].func1": "main.f[...].func1",
		"odd]name[":                               "odd]name[",
		"":                                        "",
	} {
		if got := PrintedName(symbol); got != want {
			t.Errorf("%q: got %q, want %q", symbol, got, want)
		}
	}
}
