package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"contend/internal/matrix"
	"contend/internal/recording"
)

// runMatrix records the target of every build by every toolchain; it resumes.
func runMatrix(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("matrix", flag.ContinueOnError)
	lines := f.String("lines", "reports/matrix.jsonl", "the cells, one line each")
	out := f.String("o", "reports/matrix.md", "the table")
	fetch := f.Bool("fetch", false, "let the go command fetch toolchains that are not at hand")
	only := f.String("only", "", "toolchains and builds to run, separated by commas (default all)")
	if err := f.Parse(args); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "contend-matrix-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	source, err := filepath.Abs("testdata/matrix")
	if err != nil {
		return err
	}
	m := &matrix.Maker{Source: source, Scratch: scratch, Fetch: *fetch}
	if err := m.All(ctx, *lines, selected(*only), os.Stderr); err != nil {
		return err
	}
	all, err := matrix.Read(*lines)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := matrix.Report(&b, all, matrix.Modes, thisHost(), "make matrix"); err != nil {
		return err
	}
	return recording.WriteFile(*out, b.Bytes())
}

// selected takes a cell whose toolchain and build are each named or of a kind of
// which none is named.
func selected(only string) func(string, matrix.Build) bool {
	if only == "" {
		return nil
	}
	toolchains, builds := map[string]bool{}, map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		if strings.HasPrefix(name, "go1") {
			toolchains[name] = true
		} else {
			builds[name] = true
		}
	}
	return func(toolchain string, b matrix.Build) bool {
		return (len(toolchains) == 0 || toolchains[toolchain]) && (len(builds) == 0 || builds[b.Name])
	}
}

// thisHost names the machine and how busy it is at the end: times are of that.
func thisHost() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // "" where it cannot be read, as the next
	load, _ := os.ReadFile("/proc/loadavg")
	last, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("Linux %s, %d CPUs, load %s.", strings.TrimSpace(string(release)), runtime.NumCPU(), last)
}
