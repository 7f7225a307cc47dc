package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"contend/internal/recording"
	"contend/internal/trial"
)

// distinct is the number of distinct stacks of the two profiles that contend and
// pprof compare side by side.
const distinct = 100_000

// large measures contend and pprof side by side on large profiles.
func large(ctx context.Context, contend, out, scratch string, repeats int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	type input struct {
		what      string
		stacks    int
		packed    bool
		reference bool
	}
	var rows []trial.LargeRow
	var notes []string
	for _, in := range []input{
		{fmt.Sprintf("two profiles of %d distinct stacks", distinct), distinct, true, true},
		{"two profiles of 150 MB unpacked, 2,090,000 stacks", 2_090_000, false, false},
		{"two profiles beyond the bound, 2,500,000 stacks", 2_500_000, false, false},
	} {
		base, cand := filepath.Join(scratch, "base.pb.gz"), filepath.Join(scratch, "candidate.pb.gz")
		// Another process makes them: this one must stay small, see Measure.
		if b, err := exec.CommandContext(ctx, self, "make-large", base, cand, fmt.Sprint(in.stacks), fmt.Sprint(in.packed)).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot make the profiles: %w: %s", err, b)
		}
		row := trial.LargeRow{What: in.what, Bytes: size(base) + size(cand)}
		n := repeats
		if !in.reference {
			n = 1
		}
		for range n {
			c, err := trial.Measure(ctx, contend, "diff", base, cand)
			if err != nil {
				return err
			}
			keepLeast(&row.Contend, c)
			if !in.reference {
				continue
			}
			if c, err = trial.Measure(ctx, "go", "tool", "pprof", "-top", "-diff_base", base, cand); err != nil {
				return err
			}
			keepLeast(&row.Reference, c)
		}
		if row.Contend.Exit != 0 {
			notes = append(notes, in.what+": `"+strings.ReplaceAll(row.Contend.Last, scratch+"/", "")+"`")
		}
		for _, c := range []*trial.Cost{&row.Contend, &row.Reference} {
			c.Command = strings.ReplaceAll(c.Command, scratch+"/", "")
		}
		rows = append(rows, row)
	}
	var b bytes.Buffer
	if err := trial.ReportLarge(&b, rows, notes, "make bench-large"); err != nil {
		return err
	}
	return recording.WriteFile(out, b.Bytes())
}

// keepLeast keeps the least of each cost over the runs.
func keepLeast(least *trial.Cost, c trial.Cost) {
	if least.Command == "" {
		*least = c
		return
	}
	least.Wall, least.CPU, least.RSS = min(least.Wall, c.Wall), min(least.CPU, c.CPU), min(least.RSS, c.RSS)
	least.Exit = max(least.Exit, c.Exit)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
