package main

import (
	"time"

	"github.com/spf13/pflag"
)

// unitFlag is the length of time that one unit of a folded stack's number stands
// for: a unit's name, or the period of a sampler.
type unitFlag time.Duration

var unitNames = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

func (o *viewOptions) addUnit(f *pflag.FlagSet) {
	f.Var(&o.unit, "unit", "folded stacks: what their numbers count: ns, us, ms, s, or a sampler's period like 10ms (default ns)")
}

func (u *unitFlag) String() string {
	if *u == 0 {
		return ""
	}
	return time.Duration(*u).String()
}

func (u *unitFlag) Type() string { return "unit" }

func (u *unitFlag) Set(s string) error {
	d, ok := unitNames[s]
	if !ok {
		var err error
		if d, err = time.ParseDuration(s); err != nil || d <= 0 {
			return usagef("%q is neither ns, us, ms, s nor a period like 10ms", s)
		}
	}
	*u = unitFlag(d)
	return nil
}
