package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"contend/internal/recording"
	"contend/internal/soak"
)

// runSoak attaches and detaches, kills recorders, and measures attaching to large
// executables.
func runSoak(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	cycles := f.Int("cycles", 1000, "how often to attach and detach")
	kills := f.Int("kills", 50, "how many recorders to kill")
	out := f.String("o", "reports/attach.md", "what to write")
	if err := f.Parse(args); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "contend-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	build := func(dir, name, pkg string, flags ...string) (string, error) {
		exe := filepath.Join(scratch, name)
		cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", exe}, flags...), pkg)...)
		cmd.Dir = dir
		if b, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot build %s: %w: %s", pkg, err, b)
		}
		return exe, nil
	}
	p := soak.Plan{Contend: "bin/contend", Scratch: scratch, Cycles: *cycles, Kills: *kills, Bound: 9 * time.Minute}
	if p.Target, err = build(".", "locks", "./internal/collect/gowait/testdata/locks"); err != nil {
		return err
	}
	var large []*soak.Large
	for name, flags := range map[string][]string{"every": nil, "every-unoptimized": {"-race", "-gcflags=all=-N -l"}} {
		exe, err := build("testdata/brokers", name, "./every", flags...)
		if err != nil {
			return err
		}
		l, err := soak.AttachLarge(ctx, exe, 20)
		if err != nil {
			return err
		}
		large = append(large, l)
	}
	r, err := p.Run(ctx, os.Stderr)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := soak.Report(&b, p, r, large, thisHost(), "make soak-attach"); err != nil {
		return err
	}
	if err := recording.WriteFile(*out, b.Bytes()); err != nil {
		return err
	}
	if !r.Whole(p) {
		return fmt.Errorf("the soak is not whole: see %s", *out)
	}
	return nil
}
