package main

import (
	"context"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"contend/internal/experiment"
)

// commandFlags describe an experiment with the user's own broker.
type commandFlags struct {
	baseline, candidate string
	load, ready, ops    string
	warmup, patience    time.Duration
	flags               *pflag.FlagSet
}

// Names of the flags that only such an experiment has.
var commandFlagNames = []string{"baseline", "candidate", "load", "ready", "ready-timeout", "ops", "warmup"}

func (c *commandFlags) add(f *pflag.FlagSet) {
	c.flags = f
	f.StringVar(&c.baseline, "baseline", "", "the command line, for sh, that runs the baseline's broker in the foreground")
	f.StringVar(&c.candidate, "candidate", "", "the same for the candidate")
	c.shared("load", "the command line that drives the broker until it is stopped; a failure makes the run invalid")
	f.StringVar(&c.ready, "ready", "", "HOST:PORT that accepts a connection, or a command line that exits with 0, once the broker is ready")
	f.DurationVar(&c.patience, "ready-timeout", experiment.DefaultPatience, "how long a broker may take to become ready")
	c.shared("warmup", "with --baseline, from the load's start to the first window (default "+experiment.DefaultWarmup.String()+")")
	addOpsFlag(f, &c.ops)
}

// shared adds a flag that a workload may have as well, with a meaning of its own.
func (c *commandFlags) shared(name, usage string) {
	if flag := c.flags.Lookup(name); flag != nil {
		flag.Usage = usage + "; " + flag.Usage
		return
	}
	c.flags.String(name, "", usage)
}

// readShared takes over what the shared flags were set to.
func (c *commandFlags) readShared() (err error) {
	c.load, c.warmup = "", experiment.DefaultWarmup
	if c.flags.Changed("load") {
		c.load = c.flags.Lookup("load").Value.String()
	}
	if c.flags.Changed("warmup") {
		if c.warmup, err = time.ParseDuration(c.flags.Lookup("warmup").Value.String()); err != nil {
			return usagef("--warmup: %w", err)
		}
	}
	return nil
}

func (c *commandFlags) given() bool { return c.baseline != "" || c.candidate != "" }

// unused refuses flags of an experiment with commands where there are none.
func (c *commandFlags) unused() error {
	for _, name := range commandFlagNames {
		if _, setting := c.flags.Lookup(name).Value.(*combinedValue); c.flags.Changed(name) && !setting {
			return usagef("--%s goes with --baseline and --candidate, not with a workload", name)
		}
	}
	return nil
}

func (o *experimentOptions) runCommands(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, p := &o.commands, &o.protocol
	if err := c.readShared(); err != nil {
		return err
	}
	switch {
	case len(args) > 0:
		return usagef("name a workload, or --baseline and --candidate: %q given beside them", args[0])
	case c.baseline == "" || c.candidate == "":
		return usagef("an experiment needs both --baseline and --candidate")
	case c.warmup < 0 || c.patience <= 0:
		return usagef("--warmup and --ready-timeout cannot be negative")
	}
	if err := o.noWorkloadFlags(); err != nil {
		return err
	}
	counter, err := parseOps(c.ops)
	if err != nil {
		return err
	}
	if !o.flags.Changed("aa") {
		p.AA = 0
	}
	p.Name = programName(c.baseline)
	p.Arms = []string{"baseline", "candidate"}
	p.Commands = map[string]string{"baseline": c.baseline, "candidate": c.candidate}
	p.Settings = map[string]string{"load": c.load, "ready": c.ready, "ops": counter.Spec(), "warmup": c.warmup.String()}
	p.Timeout = experiment.DefaultTimeout + 20*p.Window + c.warmup + c.patience
	return o.run(ctx, &experiment.Commands{
		Name: p.Name, Arms: p.Commands, Load: c.load, Ready: c.ready, Ops: counter,
		Warmup: c.warmup, Patience: c.patience, Collect: o.collect(),
	}, stdout, stderr)
}

// noWorkloadFlags refuses the flags of contend's own workloads.
func (o *experimentOptions) noWorkloadFlags() error {
	var err error
	o.flags.Visit(func(f *pflag.Flag) {
		if _, setting := f.Value.(*combinedValue); err == nil && (f.Name == "arms" || setting && !slices.Contains(commandFlagNames, f.Name)) {
			err = usagef("--%s goes with a workload's name, not with --baseline and --candidate", f.Name)
		}
	})
	return err
}

// assignment is what may stand before a command in a shell: NAME=VALUE.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// programName is what an experiment is called: the program that a command line runs.
func programName(line string) string {
	for _, word := range strings.Fields(line) {
		if assignment.MatchString(word) || word == "exec" || word == "env" {
			continue
		}
		if name := filepath.Base(strings.Trim(word, `"'`)); regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`).MatchString(name) {
			return name
		}
		break
	}
	return "broker"
}
