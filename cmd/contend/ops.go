package main

import (
	"github.com/spf13/pflag"

	"contend/internal/collect/operations"
)

func addOpsFlag(f *pflag.FlagSet, spec *string) {
	f.StringVar(spec, "ops", "", "count the target's operations: URL#NAME[=UNIT] of a counter that it serves as Prometheus text or JSON")
}

// parseOps reads --ops; nil when it was not given.
func parseOps(spec string) (*operations.Counter, error) {
	if spec == "" {
		return nil, nil
	}
	c, err := operations.ParseCounter(spec)
	if err != nil {
		return nil, usagef("--ops: %w", err)
	}
	return c, nil
}
