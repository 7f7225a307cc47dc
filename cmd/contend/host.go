package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"contend/internal/host"
	"contend/internal/recording"
)

func newHost() *cobra.Command {
	c := &cobra.Command{
		Use:   "host",
		Short: "Say whether this host is fit to measure on; fix it; put it back",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "check",
		Short: "Show what can be known of clock, turbo, governor, throttling, steal and other load",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := settled(cmd.Context())
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, f := range host.Check(state) {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Verdict, f.Name, f.Value, f.Why)
				if f.Remedy != "" {
					fmt.Fprintf(t, "\t\t\tremedy: %s\n", f.Remedy)
				}
			}
			return t.Flush()
		},
	})
	c.AddCommand(newHostTune(), newHostRestore())
	return c
}

// settled reads the host twice, a second apart: shares of steal and of other
// load belong to an interval.
func settled(ctx context.Context) (*recording.HostState, error) {
	before := host.Now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Second):
	}
	after := host.Now()
	host.Settle(before, after)
	return after, nil
}
