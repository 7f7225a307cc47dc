package main

import (
	"io"

	"github.com/spf13/cobra"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
)

func newRules() *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Show the built-in rules, or what rules do with a recording",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(newRulesCheck(), newRulesShow())
	return c
}

func newRulesShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the built-in rules, in the format of a rules file",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(analyze.BuiltinYAML())
			return err
		},
	}
}

func newRulesCheck() *cobra.Command {
	var o viewOptions
	formats := []render.Format{render.Text, render.Markdown, render.JSON, render.CSV}
	c := &cobra.Command{
		Use:   "check RECORDING|SERIES|PROFILE",
		Short: "Tell which rule matched how much of a recording, and which never did",
		Args:  exactArgs("a recording"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.noteGiven(cmd.Flags())
			if err := o.check(formats); err != nil || o.format == formatPprof {
				if err == nil {
					err = usagef("--format pprof: there are %s", join(formats))
				}
				return err
			}
			return runRulesCheck(o, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", string(render.Text), join(formats))
	f.StringVarP(&o.output, "output", "o", "", "write to this file instead of standard output")
	f.StringVar(&o.profile, "profile", "", "waits, offcpu, mutex, block or fgprof (default: the first that every recording has)")
	f.StringVar(&o.rules, "rules", "", "the rules file to check, beside the built-in ones")
	o.addUnit(f)
	o.limit = 1 // of no use here
	return c
}

func runRulesCheck(o viewOptions, path string, stdin io.Reader, stdout io.Writer) error {
	opt, err := o.options()
	if err != nil {
		return err
	}
	side, _, err := o.read(path, stdin) // no figure is given that a passed-over run could spoil
	if err != nil {
		return err
	}
	check, err := analyze.CheckRules(side, opt)
	if err != nil {
		return err
	}
	view := textOptions(stdout, -1)
	return o.write(stdout, func(w io.Writer) error { return render.RulesCheck(w, check, render.Format(o.format), view) })
}
