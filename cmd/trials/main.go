// Command trials puts contend's verdicts and its appetite to the test, and
// writes what it found, and runs the fuzzers; the Makefile's targets bank,
// error-rates, bench-large, bench-symbolize, lock-names, matrix, brokers, soak-attach and fuzz run it.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"contend/internal/recording"
	"contend/internal/trial"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "trials: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: trials bank|live|report|large|symbolize|locknames|matrix|brokers|soak|cost|fuzz [FLAG…]")
	}
	switch args[0] {
	case "matrix":
		return runMatrix(ctx, args[1:])
	case "soak":
		return runSoak(ctx, args[1:])
	case "fuzz":
		return runFuzz(ctx, args[1:])
	}
	if args[0] == "make-large" && len(args) == 5 {
		stacks, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return trial.WriteLarge(args[1], args[2], stacks, args[4] == "true")
	}
	if len(args) == 3 {
		switch args[0] {
		case "make-addresses":
			return makeAddresses(args[1], args[2])
		case "locate":
			return locate(args[1], args[2])
		case "name-locks":
			return nameLocks(args[1], args[2])
		}
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	contend := f.String("contend", "bin/contend", "the contend to use")
	out := f.String("o", "", "what to write")
	window := f.Duration("window", 500*time.Millisecond, "length of a recording")
	rounds := f.Int("rounds", 10, "rounds of a regime (bank), pairs of an experiment (live)")
	binary := f.String("binary", "", "the large binary; built if not given (symbolize)")
	n := f.Int("n", 40, "experiments (live)")
	lines := f.String("lines", "reports/error-rates.jsonl", "the experiments, one line each (live, report)")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "contend-trials-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	r := &trial.Recorder{Contend: *contend, Target: filepath.Join(scratch, "locktarget"), Window: *window}
	switch args[0] {
	case "bank", "live":
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", r.Target, "./internal/trial/testdata/locktarget")
		if b, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build the lock target: %w: %s", err, b)
		}
	}
	switch args[0] {
	case "brokers":
		return brokers(ctx, r, *out, scratch)
	case "bank":
		return r.MakeBank(ctx, *out, *rounds, os.Stderr)
	case "live":
		return r.Live(ctx, *lines, scratch, *n, *rounds, os.Stderr)
	case "report":
		all, err := trial.ReadExperiments(*lines)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := trial.ReportExperiments(&b, all, "make error-rates"); err != nil {
			return err
		}
		return recording.WriteFile(*out, b.Bytes())
	case "locknames":
		return locknames(ctx, r, *out, scratch)
	case "symbolize":
		return symbolizeTrial(ctx, *binary, *out, scratch, *n)
	case "cost":
		return costs(ctx, *contend, *out, scratch, *window, *rounds)
	case "large":
		return large(ctx, *contend, *out, scratch, *n)
	}
	return fmt.Errorf("unknown trial %q", args[0])
}
