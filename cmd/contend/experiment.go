package main

import (
	"context"
	"io"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"contend/internal/collect"
	"contend/internal/collect/gowait"
	"contend/internal/experiment"
	"contend/internal/host"
	"contend/internal/recording"
	"contend/internal/workload"
)

// experimentOptions are experiment's flags.
type experimentOptions struct {
	protocol experiment.Options
	settings workload.Settings
	workload *workloadFlags
	arms     []string
	waits    string
	holders  string
	commands commandFlags
	flags    *pflag.FlagSet // as given
}

func newExperiment() *cobra.Command {
	var o experimentOptions
	c := &cobra.Command{
		Use:   "experiment NAME | --baseline CMD --candidate CMD [--load CMD]",
		Short: "Run a workload's arms, or two builds of your broker, in pairs; record and compare them",
		Long: "Experiment runs every arm of a workload, or two command lines of yours, in fresh processes,\n" +
			"in pairs and in random order: each warms up, then a window passes unrecorded, then one is\n" +
			"recorded. It writes report.md, report.html, report.json, diff.svg and every recording.\n" +
			"Interrupted, the same command goes on. Workloads:\n\n" + workloadHelp(),
		Example: "  contend experiment handover\n" +
			"  contend experiment --baseline './broker-v1 -c broker.conf' --candidate './broker-v2 -c broker.conf' \\\n" +
			"    --load './load -d 1h' --ready 127.0.0.1:4222 --ops 'http://127.0.0.1:8222/varz#in_msgs=message'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkHolderMode(o.holders); err != nil {
				return err
			}
			if o.waits != gowait.ModeLocks && o.waits != gowait.ModeAll { // auto would choose anew in each run
				return usagef("--waits %s: locks or all", o.waits)
			}
			if o.commands.given() {
				return o.runCommands(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return o.runWorkload(cmd.Context(), cmd, args)
		},
	}
	p, f := &o.protocol, c.Flags()
	o.flags = f
	f.StringVarP(&p.Out, "output", "o", "", "the experiment's folder (default reports/NAME)")
	f.BoolVar(&p.Force, "force", false, "replace the experiment in that folder instead of going on with it")
	f.StringSliceVar(&o.arms, "arms", nil, "the baseline, the candidate, then further arms (default all, as listed above)")
	f.Var(pairsFlag{p}, "pairs", "how many times every arm runs (default 10, or 2 with --quick), or auto: 10 to 30, until the intervals are narrow")
	f.IntVar(&p.AA, "aa", experiment.EveryPair, "pairs with a second run of the baseline, to show the noise (default every pair; none for commands)")
	f.Uint64Var(&p.Seed, "seed", 0, "of the runs' order; 0 draws one")
	f.DurationVar(&p.Window, "window", 0, "length of each window, at least (default 3s, or 1s with --quick)")
	f.BoolVar(&p.Quick, "quick", false, "a smoke of the whole thing, too short for verdicts")
	f.StringVar(&o.waits, "waits", gowait.ModeLocks, "which waits to probe: locks, or all, which costs more")
	addHolders(f, &o.holders)
	o.workload = addWorkloadFlags(f)
	o.commands.add(f) // after those, with whom it shares two
	return c
}

func (o *experimentOptions) runWorkload(ctx context.Context, cmd *cobra.Command, args []string) error {
	if err := exactArgs("a workload's name")(cmd, args); err != nil {
		return err
	}
	if err := o.commands.unused(); err != nil {
		return err
	}
	var err error
	if _, o.settings, err = o.workload.choose(args[0], ""); err != nil {
		return err
	}
	if o.arms == nil {
		o.arms = workloads[workloadIndex(args[0])].Arms
	}
	for _, arm := range o.arms {
		if _, _, err := o.workload.choose(args[0], arm); err != nil {
			return err
		}
	}
	o.protocol.Name, o.protocol.Arms, o.protocol.Settings = args[0], o.arms, o.settings.Settings()
	live := liveWorkload(args[0], o.settings, o.collect(), io.Discard)
	return o.run(ctx, live, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

func (o *experimentOptions) collect() collect.Options {
	return collect.Options{
		Collect: []string{recording.Waits, recording.OffCPU}, Waits: o.waits, Holders: o.holders,
		Version: toolVersion(), Host: host.Edge,
	}
}

func (o *experimentOptions) run(ctx context.Context, r experiment.Runner, stdout, stderr io.Writer) error {
	p := o.protocol
	p.Capture = map[string]string{"waits": o.waits, "holders": o.holders}
	if p.Out == "" {
		p.Out = "reports/" + p.Name
	}
	p.Tool = recording.Tool{Version: toolVersion(), Go: runtime.Version()}
	p.Progress = stderr
	p.Finish = func(_ context.Context, r *experiment.Result) error {
		return r.WriteReports(r.Dir, o.again(), stdout)
	}
	_, err := experiment.Run(ctx, p, r)
	return err
}

// again is the command that makes the experiment once more.
func (o *experimentOptions) again() string {
	args := []string{"contend", "experiment"}
	if o.protocol.Commands == nil {
		args = append(args, o.protocol.Name)
	}
	o.flags.Visit(func(flag *pflag.Flag) {
		value := flag.Value.String()
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		switch flag.Name {
		case "output", "force":
			return
		case "ops":
			value = o.protocol.Settings["ops"] // without credentials
		}
		args = append(args, "--"+flag.Name+"="+quote(value))
	})
	return strings.Join(args, " ")
}

// quote makes a word fit for a shell.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_./:,=+%@", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// pairsFlag is a number of pairs, or auto.
type pairsFlag struct{ *experiment.Options }

func (p pairsFlag) Type() string { return "int|auto" }

func (p pairsFlag) String() string {
	switch {
	case p.Options == nil || p.Pairs == 0 && !p.Auto:
		return ""
	case p.Auto:
		return "auto"
	}
	return strconv.Itoa(p.Pairs)
}

func (p pairsFlag) Set(s string) error {
	p.Pairs, p.Auto = 0, s == "auto"
	if p.Auto {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return usagef("want a number from 1, or auto")
	}
	p.Pairs = n
	return nil
}
