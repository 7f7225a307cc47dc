package symbolize

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// goCommand is a big binary that is always there: the go command itself.
func goCommand(b *testing.B) string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "bin", "go")
}

func BenchmarkOpen(b *testing.B) {
	path := goCommand(b)
	b.ReportAllocs()
	for b.Loop() {
		bin, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		bin.Close()
	}
}

// randomPCs returns addresses spread evenly over a binary's code.
func randomPCs(bin *Binary, n int) []uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	pcs := make([]uint64, n)
	for i := range pcs {
		pcs[i] = bin.module.text + r.Uint64N(uint64(bin.table.entryOff(bin.table.nfunc)))
	}
	return pcs
}

func openGo(b *testing.B) *Binary {
	bin, err := Open(goCommand(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { bin.Close() })
	return bin
}

func BenchmarkFrames(b *testing.B) {
	bin := openGo(b)
	pcs := randomPCs(bin, 100_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		bin.Frames(pcs[i%len(pcs)])
		i++
	}
}

// BenchmarkStack interns stacks of 16 of a thousand addresses, as a recording does.
func BenchmarkStack(b *testing.B) {
	bin := openGo(b)
	pcs := randomPCs(bin, 1000)
	in := NewInterner(&profile.Profile{}, bin, 0)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		in.Stack(pcs[i%960:i%960+16], true)
		i++
	}
}

func BenchmarkFunc(b *testing.B) {
	bin := openGo(b)
	for b.Loop() {
		if _, err := bin.Func("runtime.semacquire1"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInlinedIn(b *testing.B) {
	bin := openGo(b)
	for b.Loop() {
		bin.InlinedIn("runtime.ready", "runtime.goready")
	}
}
