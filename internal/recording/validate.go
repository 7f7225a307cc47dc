package recording

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Bounds on what a manifest may claim, beyond anything real.
const (
	maxDuration = int64(366 * 24 * time.Hour)
	maxCPUs     = 1 << 16
	// maxShare is the recorder's cost if it kept every CPU of the host busy
	// for a target that used none, against which one core stands.
	maxShare = maxCPUs
)

// validate checks what the analysis relies on.
func (m *Manifest) validate() error {
	if m.Schema != Schema {
		return fmt.Errorf("schema %d; this contend reads schema %d", m.Schema, Schema)
	}
	if m.DurationNS <= 0 || m.DurationNS > maxDuration {
		return fmt.Errorf("duration_ns is %d: a recording covers some time, and less than a year", m.DurationNS)
	}
	if !slices.Contains([]string{EndedDuration, EndedInterrupt, EndedTargetExit}, m.Ended) {
		return fmt.Errorf("ended is %q: neither %s, %s nor %s", m.Ended, EndedDuration, EndedInterrupt, EndedTargetExit)
	}
	if m.Operations != nil && m.Operations.Count < 0 {
		return fmt.Errorf("operations.count is %d: it counts upwards", m.Operations.Count)
	}
	if m.Target.CPUNS < 0 {
		return fmt.Errorf("target.cpu_ns is %d: no time is negative", m.Target.CPUNS)
	}
	if err := m.Overhead.validate("overhead"); err != nil {
		return err
	}
	if err := m.Host.validate(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range m.Collectors {
		c := &m.Collectors[i]
		if c.Name == "" {
			return errors.New("a collector has no name")
		}
		for name := range strings.SplitSeq(c.Name, ",") { // one may make several profiles
			if seen[name] {
				return fmt.Errorf("there are two collectors of %s", name)
			}
			seen[name] = true
		}
		if err := c.validate(); err != nil {
			return fmt.Errorf("collector %s%w", c.Name, err)
		}
	}
	return nil
}

// validate returns an error that goes on after the collector's name.
func (c *Collector) validate() error {
	if c.EndMonoNS < c.StartMonoNS {
		return errors.New(" ends before it starts")
	}
	if c.StartMonoNS < 0 || c.EndMonoNS-c.StartMonoNS > maxDuration {
		return errors.New(": its window is no length of time")
	}
	for name, n := range c.Counters {
		if n < 0 {
			return fmt.Errorf(": counter %s is %d", name, n)
		}
	}
	lost := map[string]bool{}
	for _, name := range c.Lost {
		if lost[name] {
			return fmt.Errorf(": lost names %s twice, which would count it twice", name)
		}
		lost[name] = true
	}
	for _, p := range c.Parts {
		if p.EndMonoNS < p.StartMonoNS {
			return errors.New(": a part of its window ends before it starts")
		}
	}
	for _, l := range c.Locks {
		if l.HeldUpNS < 0 {
			return fmt.Errorf(": held_up_ns of lock %#x is %d: no time is negative", l.Addr, l.HeldUpNS)
		}
	}
	return c.Overhead.validate(": overhead")
}

func (o *Overhead) validate(name string) error {
	switch {
	case o == nil:
	case o.ProbeHits < 0 || o.BPFRunNS < 0 || o.TrapNS < 0:
		return fmt.Errorf("%s has a negative figure", name)
	case math.IsNaN(o.Share) || o.Share < 0 || o.Share > maxShare:
		return fmt.Errorf("%s.share is %g: no share", name, o.Share)
	}
	return nil
}

func (h *HostWindow) validate() error {
	if h == nil {
		return nil
	}
	for _, at := range []struct {
		name  string
		state *HostState
	}{{"host.before", h.Before}, {"host.after", h.After}} {
		s := at.state
		if s == nil {
			continue
		}
		if s.CPUs < 0 || s.CPUs > maxCPUs {
			return fmt.Errorf("%s.cpus is %d: no number of processors", at.name, s.CPUs)
		}
		if s.StealShare != nil && (*s.StealShare < 0 || *s.StealShare > 1) {
			return fmt.Errorf("%s.steal_share is %g: no share", at.name, *s.StealShare)
		}
	}
	return nil
}

// minStealWindow is the shortest window for which steal can be told: the kernel
// counts it in ticks of up to 10 ms, a few of which would be most of less.
const minStealWindow = 50 * time.Millisecond

// StealShare is the part of the processors' time that the hypervisor gave to
// others in the window, from 0 to 1; nil where that is unknown.
func (m *Manifest) StealShare() *float64 {
	h := m.Host
	if h == nil || h.Before == nil || h.After == nil || h.Before.Steal == nil || h.After.Steal == nil {
		return nil
	}
	cpus := max(h.Before.CPUs, h.After.CPUs)
	if cpus <= 0 || m.DurationNS < int64(minStealWindow) {
		return nil
	}
	share := (*h.After.Steal - *h.Before.Steal) / (time.Duration(m.DurationNS).Seconds() * float64(cpus))
	share = min(max(share, 0), 1)
	return &share
}
