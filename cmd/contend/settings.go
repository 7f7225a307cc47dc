package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"contend/internal/workload"
	"contend/internal/workload/checkpoint"
	"contend/internal/workload/ledger"
	"contend/internal/workload/listener"
)

// workloads are the bench's workloads; the first is what record records with
// no target.
var workloads = []workload.Info{ledger.Info, listener.Info, checkpoint.Info}

// workloadFlags are the settings of all workloads as flags of one command. A
// command learns only from its arguments which workload they are for, so a flag
// stands for the setting of that name of every workload that has it.
type workloadFlags struct {
	command  *pflag.FlagSet
	settings []workload.Settings // of workloads, in their order
	flags    []*pflag.FlagSet    // bound to settings
}

func addWorkloadFlags(command *pflag.FlagSet) *workloadFlags {
	w := &workloadFlags{command: command}
	for _, info := range workloads {
		s := info.New()
		f := pflag.NewFlagSet(info.Name, pflag.ContinueOnError)
		s.Flags(f)
		w.settings, w.flags = append(w.settings, s), append(w.flags, f)
	}
	for i, f := range w.flags {
		f.VisitAll(func(flag *pflag.Flag) {
			if command.Lookup(flag.Name) == nil {
				command.AddFlag(w.combined(flag, w.flags[i:]))
			}
		})
	}
	return w
}

// combined is the command's flag that sets one's namesakes in all the sets.
func (w *workloadFlags) combined(one *pflag.Flag, sets []*pflag.FlagSet) *pflag.Flag {
	v := &combinedValue{}
	var owners, defaults []string
	for _, f := range sets {
		if flag := f.Lookup(one.Name); flag != nil {
			v.flags = append(v.flags, flag)
			owners = append(owners, f.Name())
			defaults = append(defaults, f.Name()+" "+flag.DefValue)
		}
	}
	same := !slices.ContainsFunc(v.flags, func(f *pflag.Flag) bool { return f.DefValue != one.DefValue })
	c := &pflag.Flag{
		Name: one.Name, Usage: strings.Join(owners, ", ") + ": " + one.Usage,
		Value: v, DefValue: one.DefValue, NoOptDefVal: one.NoOptDefVal,
	}
	if !same {
		c.DefValue = strings.Join(defaults, ", ")
	}
	return c
}

// combinedValue sets one value in several workloads.
type combinedValue struct{ flags []*pflag.Flag }

func (v *combinedValue) Set(s string) error {
	for _, f := range v.flags {
		if err := f.Value.Set(s); err != nil {
			return err
		}
	}
	return nil
}

// String is what the flag was set to; before that, a default of several.
func (v *combinedValue) String() string {
	if len(v.flags) == 0 { // a zero value, as pflag may make one
		return ""
	}
	return v.flags[0].Value.String()
}

func (v *combinedValue) Type() string { return v.flags[0].Value.Type() }

// choose returns the settings of a workload as the flags have them, set to the
// arm, and the arm's name: "" means its first.
func (w *workloadFlags) choose(name, arm string) (string, workload.Settings, error) {
	i := workloadIndex(name)
	if i < 0 {
		return "", nil, usagef("unknown workload %q; there is %s", name, workloadNames())
	}
	s, arms := w.settings[i], slices.Concat(workloads[i].Arms, workloads[i].More)
	if arm == "" {
		arm = arms[0]
	}
	if !slices.Contains(arms, arm) {
		return "", nil, usagef("workload %s has no arm %q; it has %s", name, arm, strings.Join(arms, ", "))
	}
	var foreign []string
	w.command.Visit(func(flag *pflag.Flag) {
		if _, ok := flag.Value.(*combinedValue); ok && w.flags[i].Lookup(flag.Name) == nil {
			foreign = append(foreign, "--"+flag.Name)
		}
	})
	if len(foreign) > 0 {
		return "", nil, usagef("workload %s has no %s", name, strings.Join(foreign, ", "))
	}
	s.SetArm(arm)
	if err := s.Validate(); err != nil {
		return "", nil, usageError{err}
	}
	return arm, s, nil
}

func workloadIndex(name string) int {
	return slices.IndexFunc(workloads, func(w workload.Info) bool { return w.Name == name })
}

func workloadNames() string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	return strings.Join(names, ", ")
}

// workloadHelp lists the workloads and their arms.
func workloadHelp() string {
	var b strings.Builder
	for _, w := range workloads {
		fmt.Fprintf(&b, "  %s: %s\n    arms: %s\n", w.Name, w.Summary, strings.Join(w.Arms, ", "))
		if len(w.More) > 0 {
			fmt.Fprintf(&b, "    more arms, if named: %s\n", strings.Join(w.More, ", "))
		}
	}
	return b.String()
}

// workloadArgs is the command line that runs an arm of a workload with these
// settings, steered. It names every flag, so that a child does exactly what its
// parent says.
func workloadArgs(name, arm string, s workload.Settings) []string {
	args := []string{"workload", name, "--arm=" + arm, "--" + steeredFlag}
	settingsFlags(s).VisitAll(func(flag *pflag.Flag) {
		args = append(args, "--"+flag.Name+"="+flag.Value.String())
	})
	return args
}

func settingsFlags(s workload.Settings) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Flags(f)
	return f
}
