package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"contend/internal/cost"
	"contend/internal/recording"
)

// costs measures what contend and its peers cost a target, and writes the report.
func costs(ctx context.Context, contend, out, scratch string, window time.Duration, rounds int) error {
	b := &cost.Bench{Contend: contend, Dir: scratch, Window: window, Rounds: rounds, Log: os.Stderr}
	results, err := b.Run(ctx)
	if err != nil {
		return err
	}
	hits, err := exec.CommandContext(ctx, "go", "test", "-run", "xxx", "-bench", "Hit$", "-benchtime", "20000x", "./internal/collect/gowait").CombinedOutput()
	if err != nil {
		return fmt.Errorf("measuring a probe's hit: %w: %s", err, hits)
	}
	var lines strings.Builder
	for line := range strings.Lines(string(hits)) {
		if strings.HasPrefix(line, "Benchmark") || strings.HasPrefix(line, "cpu:") {
			lines.WriteString(line)
		}
	}
	var report bytes.Buffer
	if err := b.Report(&report, results, lines.String(), "make bench-cost", host()); err != nil {
		return err
	}
	return recording.WriteFile(out, report.Bytes())
}

// host says in a line what was measured on.
func host() string {
	var u unix.Utsname
	kernel := "unknown"
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	return fmt.Sprintf("%d CPUs, Linux %s, %s.", runtime.NumCPU(), kernel, runtime.Version())
}
