package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"contend/internal/collect/lockname"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
	"contend/internal/trial"
)

// locknames records each real broker, whole and stripped, and lists the names of the
// locks that are waited for most; and names every call of a mutex in its binary.
func locknames(ctx context.Context, r *trial.Recorder, out, scratch string) error {
	source, err := filepath.Abs("testdata/brokers")
	if err != nil {
		return err
	}
	var rows []trial.NamedBroker
	for _, b := range trial.Brokers {
		for _, stripped := range []bool{false, true} {
			if stripped {
				b.Flags = []string{"-ldflags=-s -w"}
			}
			rec, _, err := r.RecordBroker(ctx, b, source, scratch)
			if err != nil {
				return err
			}
			row, err := trial.TopLocks(b.Name, stripped, rec)
			if err != nil {
				return err
			}
			exe := filepath.Join(scratch, "named")
			build := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", exe}, b.Flags...), b.Package)...)
			build.Dir = source
			if said, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("cannot build %s: %w: %s", b.Package, err, said)
			}
			if row.Calls, row.Named, row.Contradicted, err = nameAll(exe); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s stripped=%v: %d of %d calls named\n", b.Name, stripped, row.Named, row.Calls)
			rows = append(rows, row)
		}
	}
	var text bytes.Buffer
	if err := trial.ReportNames(&text, rows, r.Window, "make lock-names"); err != nil {
		return err
	}
	return recording.WriteFile(out, text.Bytes())
}

// nameAll names the lock at each call of a mutex's slow path outside the standard
// library's locks: without callers, of which a recording knows six.
func nameAll(path string) (calls, named, contradicted int, err error) {
	b, err := symbolize.Open(path)
	if err != nil {
		return 0, 0, 0, err
	}
	defer b.Close()
	slow, err := b.Func("internal/sync.(*Mutex).lockSlow")
	if err != nil {
		return 0, 0, 0, err
	}
	var sites [][]uint64
	for f := range b.Funcs {
		if pkg, _, _ := strings.Cut(f.Name, "."); pkg == "sync" || pkg == "internal/sync" || pkg == "runtime" {
			continue
		}
		for _, ret := range callsOf(b, f, slow.Entry) {
			sites = append(sites, []uint64{slow.Entry + 1, ret})
		}
	}
	n := lockname.New(b, sites, nil)
	defer n.Close()
	for _, s := range sites {
		name, err := n.Site(s)
		switch {
		case lockname.Disagree(err):
			contradicted++
		case name.Text != "":
			named++
		}
	}
	return len(sites), named, contradicted, nil
}

// callsOf is where the calls of a function from f return to.
func callsOf(b *symbolize.Binary, f symbolize.Func, callee uint64) []uint64 {
	code, err := b.Code(f)
	if err != nil {
		return nil
	}
	var returns []uint64
	for off := 0; off < len(code); {
		in, err := x86asm.Decode(code[off:], 64)
		if err != nil || in.Len == 0 {
			break
		}
		off += in.Len
		if rel, ok := in.Args[0].(x86asm.Rel); ok && in.Op == x86asm.CALL && f.Entry+uint64(off)+uint64(int64(rel)) == callee {
			returns = append(returns, f.Entry+uint64(off))
		}
	}
	return returns
}
