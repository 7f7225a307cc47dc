package main

import (
	"io"

	"github.com/spf13/cobra"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
)

func newExport() *cobra.Command {
	o := viewOptions{}
	c := &cobra.Command{
		Use:   "export RECORDING|SERIES|FILE",
		Short: "Write every sample as a row, for SQL",
		Long: "Export writes every sample of the waits, of the holders and of the threads with what contend\n" +
			"made of it: category, lock, boundary, waker, stack. docs/export.md describes the columns.",
		Args: exactArgs("a recording"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f := render.Format(o.format); f != render.CSV && f != render.JSONL {
				return usagef("--format %s: export writes csv or jsonl", o.format)
			}
			return runExport(o, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", string(render.CSV), "csv or jsonl")
	f.StringVarP(&o.output, "output", "o", "", "write to this file instead of standard output")
	f.StringVar(&o.profile, "profile", "", "waits, holders, offcpu, mutex, block or fgprof (default: the first that every recording has)")
	f.StringVar(&o.rules, "rules", "", "a file of names, categories and idle patterns, beside the built-in ones")
	f.StringVar(&o.base, "base", "", "an earlier pprof file of the same process: export what came since")
	o.addUnit(f)
	return c
}

func runExport(o viewOptions, path string, stdin io.Reader, stdout io.Writer) error {
	opt, err := o.options()
	if err != nil {
		return err
	}
	side, _, err := o.read(path, stdin) // no figure is given that a passed-over run could spoil
	if err != nil {
		return err
	}
	samples, err := analyze.Samples(side, opt)
	if err != nil {
		return err
	}
	return o.write(stdout, func(w io.Writer) error { return render.Samples(w, samples, render.Format(o.format)) })
}
