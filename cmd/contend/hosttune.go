package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"contend/internal/host"
)

func newHostTune() *cobra.Command {
	file := host.TunedFile
	c := &cobra.Command{
		Use:   "tune",
		Short: "Give this host the settings of one to measure on, until restore or a restart",
		Long: "Tune sets the performance governor, turbo off, idle states no deeper than C1, no NUMA\n" +
			"balancing, swapping or watchdog, and huge pages on request only, as far as this host has\n" +
			"such settings. What it found is kept in a file first; contend host restore puts it back.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			changes, err := host.Tune("/", file)
			if err != nil {
				return err
			}
			if len(changes) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "nothing to change: every setting that this host has is right already")
				return err
			}
			return showChanges(cmd.OutOrStdout(), changes, "tune", func(c host.Change) (from, to string) { return c.Was, c.Set })
		},
	}
	c.Flags().StringVar(&file, "state", file, "where to keep what was found")
	return c
}

func newHostRestore() *cobra.Command {
	file := host.TunedFile
	c := &cobra.Command{
		Use:   "restore",
		Short: "Put back what tune changed",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			changes, err := host.Restore("/", file)
			if err != nil {
				return err
			}
			return showChanges(cmd.OutOrStdout(), changes, "restore", func(c host.Change) (from, to string) { return c.Set, c.Was })
		},
	}
	c.Flags().StringVar(&file, "state", file, "where tune kept what it found")
	return c
}

// showChanges lists what was done and what was not, which is an error.
func showChanges(w io.Writer, changes []host.Change, what string, order func(host.Change) (from, to string)) error {
	failed, first := 0, ""
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range changes {
		from, to := order(c)
		done := "ok"
		if c.Err != "" {
			done = c.Err
			if failed++; first == "" {
				first = "/" + c.Path + ": " + c.Err
			}
		}
		fmt.Fprintf(t, "/%s\t%s → %s\t%s\n", c.Path, from, to, done)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%s: %d of %d settings could not be changed, the first %s", what, failed, len(changes), first)
	}
	return nil
}
