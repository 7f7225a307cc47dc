package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"contend/internal/collect/capability"
)

func newDoctor() *cobra.Command {
	var pid int
	c := &cobra.Command{
		Use:   "doctor [--pid PID]",
		Short: "Say what this kernel, these privileges and this target allow",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := capability.Host()
			if pid != 0 {
				checks = append(checks, capability.Target(pid)...)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, c := range checks {
				fmt.Fprintf(t, "%s\t%s\t%s\n", c.State, c.Name, c.Detail)
				if c.Remedy != "" {
					fmt.Fprintf(t, "\t\tremedy: %s\n", c.Remedy)
				}
			}
			return t.Flush()
		},
	}
	c.Flags().IntVar(&pid, "pid", 0, "also look at this process")
	return c
}
