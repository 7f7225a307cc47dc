package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"contend/internal/collect/lockname"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
	"contend/internal/trial"
	"github.com/google/pprof/profile"
)

// largeTypes make a binary of about 100 MB, debug information included.
const largeTypes = 14_000

// Inputs of a comparison: addresses, spread evenly over the code, and the sites whose
// locks are named.
const (
	fewAddresses  = 1
	manyAddresses = 10_000
	someSites     = 200
)

// symbolizeTrial measures how soon, and in what memory, contend knows the functions
// at addresses of a large binary, beside the tools that do the same.
func symbolizeTrial(ctx context.Context, binary, out, scratch string, repeats int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if binary == "" {
		if binary, err = buildLarge(ctx, scratch); err != nil {
			return err
		}
	}
	in := func(name string) string { return filepath.Join(scratch, name) }
	if b, err := exec.CommandContext(ctx, self, "make-addresses", binary, scratch).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot choose addresses: %w: %s", err, b)
	}
	rows := []trial.SymbolizeRow{
		{What: "ready: opened, nothing looked up", Tools: []trial.Tool{{Name: "contend", Args: []string{self, "locate", binary, os.DevNull}}}},
	}
	for _, n := range []int{fewAddresses, manyAddresses} {
		file := in(fmt.Sprintf("addresses-%d", n))
		row := trial.SymbolizeRow{What: fmt.Sprintf("%d addresses: function, file, line, inlined calls", n)}
		row.Tools = append(row.Tools, trial.Tool{Name: "contend", Args: []string{self, "locate", binary, file}, Out: in("contend")})
		for name, args := range map[string]string{
			"binutils addr2line": "addr2line -a -f -i -e", "llvm-addr2line": "llvm-addr2line -a -f -i -e", "go tool addr2line": goTool(ctx, "addr2line"),
		} {
			if args == "" || !installed(args) {
				continue
			}
			row.Tools = append(row.Tools, trial.Tool{Name: name, Args: []string{"sh", "-c", fmt.Sprintf("exec %s %s < %s", args, binary, file)}, Out: in(name)})
		}
		if pprof := goTool(ctx, "pprof"); pprof != "" {
			row.Tools = append(row.Tools, trial.Tool{Name: "go tool pprof", Args: []string{pprof, "-symbolize=local", "-raw", binary, file + ".pb.gz"}})
		}
		rows = append(rows, row)
	}
	for _, spread := range []string{"few", "all"} {
		rows = append(rows, trial.SymbolizeRow{What: fmt.Sprintf("names of the locks of %d call sites in %s packages", someSites, spread),
			Tools: []trial.Tool{{Name: "contend", Args: []string{self, "name-locks", binary, in("sites-" + spread)}, Out: in("names")}}})
	}
	for i := range rows {
		if err := rows[i].Measure(ctx, repeats); err != nil {
			return err
		}
	}
	agreement, err := agree(in("contend"), in("llvm-addr2line"))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	names, err := os.ReadFile(in("names"))
	if err != nil {
		return err
	}
	if err := trial.ReportSymbolize(&b, rows, size(binary), agreement, strings.TrimSpace(string(names)), "make bench-symbolize"); err != nil {
		return err
	}
	return recording.WriteFile(out, b.Bytes())
}

func buildLarge(ctx context.Context, scratch string) (string, error) {
	src, binary := filepath.Join(scratch, "large"), filepath.Join(scratch, "large.bin")
	if err := trial.WriteLargeProgram(src, largeTypes); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	build.Dir = src
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the large program: %w: %s", err, b)
	}
	return binary, nil
}

// goTool is the path of a tool of the toolchain, so that the go command is not
// measured with it.
func goTool(ctx context.Context, name string) string {
	_ = exec.CommandContext(ctx, "go", "tool", name, "-h").Run() // builds it, where that is done when first used
	out, err := exec.CommandContext(ctx, "go", "tool", "-n", name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func installed(command string) bool {
	name, _, _ := strings.Cut(command, " ")
	_, err := exec.LookPath(name)
	return err == nil
}

// makeAddresses writes addresses as text and as unsymbolized profiles, and stacks of
// lock sites.
func makeAddresses(binary, dir string) error {
	b, err := symbolize.Open(binary)
	if err != nil {
		return err
	}
	defer b.Close()
	slow, err := b.Func("internal/sync.(*Mutex).lockSlow")
	if err != nil {
		return err
	}
	var functions []symbolize.Func
	var sites [][]uint64
	for f := range b.Funcs {
		if f.End-f.Entry < 32 {
			continue
		}
		functions = append(functions, f)
		if strings.HasPrefix(f.Name, "large/") {
			for _, ret := range callsOf(b, f, slow.Entry) {
				sites = append(sites, []uint64{slow.Entry + 1, ret})
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{fewAddresses, manyAddresses} {
		var text bytes.Buffer
		p := &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
			Mapping:    []*profile.Mapping{{ID: 1, Start: functions[0].Entry &^ 0xfff, Limit: functions[len(functions)-1].End + 0x1000, Offset: functions[0].Entry&^0xfff - 0x400000, File: binary}},
		}
		for i := range n {
			f := functions[r.IntN(len(functions))]
			addr := f.Entry + r.Uint64N(f.End-f.Entry-16)
			fmt.Fprintf(&text, "0x%x\n", addr)
			l := &profile.Location{ID: uint64(i + 1), Mapping: p.Mapping[0], Address: addr}
			p.Location = append(p.Location, l)
			p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{1}})
		}
		path := filepath.Join(dir, fmt.Sprintf("addresses-%d", n))
		var packed bytes.Buffer
		if err := p.Write(&packed); err != nil {
			return err
		}
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(path+".pb.gz", packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	// Those of one package follow each other: the first are of few packages.
	few, all := sites[:min(someSites, len(sites))], make([][]uint64, 0, someSites)
	for i := range min(someSites, len(sites)) {
		all = append(all, sites[i*len(sites)/someSites])
	}
	for name, chosen := range map[string][][]uint64{"few": few, "all": all} {
		text, err := json.Marshal(chosen)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "sites-"+name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// locate prints what is at the addresses of a file, in the form of addr2line -a -f -i.
func locate(binary, addresses string) error {
	b, err := symbolize.Open(binary)
	if err != nil {
		return err
	}
	defer b.Close()
	file, err := os.Open(addresses)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriter(os.Stdout)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var addr uint64
		if _, err := fmt.Sscanf(lines.Text(), "0x%x", &addr); err != nil {
			return err
		}
		fmt.Fprintf(w, "0x%016x\n", addr)
		for _, f := range b.Frames(addr) {
			fmt.Fprintf(w, "%s\n%s:%d\n", f.Func, f.File, f.Line)
		}
	}
	return w.Flush()
}

// nameLocks names the locks of the stacks in a file and says how many have a name, and
// how long it took once the binary was open.
func nameLocks(binary, sites string) error {
	var stacks [][]uint64
	text, err := os.ReadFile(sites)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &stacks); err != nil {
		return err
	}
	b, err := symbolize.Open(binary)
	if err != nil {
		return err
	}
	defer b.Close()
	began := time.Now()
	n := lockname.New(b, stacks, nil)
	defer n.Close()
	named := 0
	for _, s := range stacks {
		if name, err := n.Site(s); err == nil && name.Text != "" {
			named++
		}
	}
	fmt.Printf("%d of %d sites named, from %s, in %d ms after opening\n", named, len(stacks), n.Source(), time.Since(began).Milliseconds())
	return nil
}

// agree counts the addresses at which two outputs of addr2line -a -f -i have the same
// innermost function and line.
func agree(ours, theirs string) (trial.Agreement, error) {
	a, err := innermost(ours)
	if err != nil {
		return trial.Agreement{}, err
	}
	b, err := innermost(theirs)
	if err != nil {
		return trial.Agreement{}, nil // it is not installed
	}
	g := trial.Agreement{LeftOut: len(b) - len(a)}
	for addr, f := range a {
		if strings.HasPrefix(f[1], "?") { // between functions
			g.LeftOut++
			continue
		}
		g.Of++
		other := b[addr]
		if f[0] == plain(other[0]) {
			g.Functions++
		}
		if f[1] == other[1] {
			g.Lines++
		}
	}
	return g, nil
}

// plain writes a function as contend does, type arguments as [...].
func plain(f string) string {
	i, j := strings.IndexByte(f, '['), strings.LastIndexByte(f, ']')
	if i < 0 || j < i {
		return f
	}
	return f[:i] + "[...]" + f[j+1:]
}

func innermost(path string) (map[string][2]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	found := make(map[string][2]string)
	for i := 0; i+2 < len(lines); i++ {
		if strings.HasPrefix(lines[i], "0x") && !strings.HasPrefix(lines[i+1], "0x") {
			place, _, _ := strings.Cut(lines[i+2], " (discriminator")
			found[strings.TrimLeft(lines[i], "0x")] = [2]string{lines[i+1], place} // some fill with zeroes
		}
	}
	return found, nil
}
