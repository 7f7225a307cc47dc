package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/collect"
	"contend/internal/experiment"
	"contend/internal/recording"
)

// Exit codes. They are decided here and nowhere else.
const (
	exitOK      = 0
	exitError   = 1 // unknown, exited or non-Go process, corrupt input, full disk
	exitUsage   = 2 // bad flags, an existing output
	exitGate    = 3 // --fail-on tripped
	exitMissing = 4 // a privilege or kernel feature
	exitLost    = 5 // data was lost, and --strict
)

var (
	errGate = errors.New("the gate tripped")
	errLost = errors.New("data was lost")
	// errMissing is doctor's: what it found missing is in its table.
	errMissing = errors.New("missing here")
)

// usageError is a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintln(stderr, "contend: "+oneLine(err))
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	var analysis *analyze.UsageError
	var protocol *experiment.UsageError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // the reader of a pipe had seen enough
		return exitOK
	case errors.As(err, &usage), errors.As(err, &analysis), errors.As(err, &protocol), errors.Is(err, recording.ErrExists):
		return exitUsage
	case errors.Is(err, errGate):
		return exitGate
	case errors.Is(err, errLost):
		return exitLost
	case errors.Is(err, errMissing), collect.IsMissing(err):
		return exitMissing
	default:
		return exitError
	}
}

// oneLine keeps an error of several causes on one line, and what a terminal
// would obey out of it.
func oneLine(err error) string {
	return render.Clean(strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; "))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "contend",
		Short: "Find which lock made a Go program slower",
		Long: "contend attaches to running Go programs, measures how long goroutines and threads\n" +
			"waited and on which lock, and compares two builds.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: contend --help lists them", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w: see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newRecord(), newReport(), newDiff(), newView(), newMerge(), newExport(), newRules(), newExperiment(), newWorkload(), newSweep(), newWorkloadRole(), newHost(), newDoctor(), newVersion())
	return root
}

// exactArgs is cobra.ExactArgs with an error that names what is missing.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usagef("%s takes %s: %d given", cmd.CommandPath(), strings.Join(names, " and "), len(args))
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments: %q", cmd.CommandPath(), args)
	}
	return nil
}
