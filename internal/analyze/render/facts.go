package render

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
)

// facts of a side's runs. "" is unknown.
var facts = []struct {
	label string
	value func([]*recording.Manifest) string
}{
	{"target", each(func(m *recording.Manifest) string {
		if m.Target.PID != 0 {
			return fmt.Sprintf("%s (PID %d)", m.Target.Name, m.Target.PID)
		}
		return m.Target.Name
	})},
	{"module", each(func(m *recording.Manifest) string { return strings.TrimSpace(m.Target.Module + " " + m.Target.Version) })},
	{"build ID", each(func(m *recording.Manifest) string { return m.Target.BuildID })},
	{"Go", each(func(m *recording.Manifest) string { return m.Target.Go })},
	{"started", started},
	{"ended by", each(func(m *recording.Manifest) string { return m.Ended })},
	{"operations", operations},
	{"collectors", each(func(m *recording.Manifest) string {
		var parts []string
		for _, c := range m.Collectors {
			s := c.Name
			for _, k := range sortedKeys(c.Settings) {
				s += fmt.Sprintf(" %s=%s", k, c.Settings[k])
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, "; ")
	})},
	{"left out", each(func(m *recording.Manifest) string {
		var parts []string
		for _, s := range m.Skipped {
			parts = append(parts, s.Name+": "+s.Reason)
		}
		return strings.Join(parts, "; ")
	})},
	{"cost of recording", cost},
	{"cost by collector", costByCollector},
	{"every wait captured for", capturedFor},
	{"host", host(func(h *recording.HostState) string { return h.Hostname })},
	{"kernel", host(func(h *recording.HostState) string { return h.Kernel })},
	{"CPU", host(func(h *recording.HostState) string {
		return strings.TrimSpace(fmt.Sprintf("%d × %s", h.CPUs, h.CPUModel))
	})},
	{"governor", host(func(h *recording.HostState) string { return h.Governor })},
	{"turbo", host(func(h *recording.HostState) string {
		switch {
		case h.Turbo == nil:
			return ""
		case *h.Turbo:
			return "on"
		}
		return "off"
	})},
	{"clock", beforeAfter("MHz", func(h *recording.HostState) *float64 { return h.CurrentMHz })},
	{"effective clock", beforeAfter("MHz", func(h *recording.HostState) *float64 { return h.EffectiveMHz })},
	{"temperature", beforeAfter("°C", func(h *recording.HostState) *float64 { return h.Celsius })},
	{"load average", beforeAfter("", func(h *recording.HostState) *float64 { return h.Load1 })},
	{"CPUs busy with others", beforeAfter("", func(h *recording.HostState) *float64 { return h.BusyOther })},
	{"throttled", throttled},
	{"steal", func(ms []*recording.Manifest) string {
		return meanAndRange(ms, percent, func(m *recording.Manifest) *float64 { return m.StealShare() })
	}},
	{"labels", labels},
	{"contend", each(func(m *recording.Manifest) string { return strings.TrimSpace(m.Tool.Version + " " + m.Tool.Go) })},
}

// mostEach is how many different values of one fact are spelled out.
const mostEach = 3

// each lists the different values of a fact over the runs, the first ones spelled out.
func each(value func(*recording.Manifest) string) func([]*recording.Manifest) string {
	return func(ms []*recording.Manifest) string {
		var all []string
		for _, m := range ms {
			if s := value(m); s != "" && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
		if more := len(all) - mostEach; more > 1 { // one more is as short as its number
			return strings.Join(all[:mostEach], ", ") + fmt.Sprintf(" and %d more", more)
		}
		return strings.Join(all, ", ")
	}
}

// meanAndRange is a figure's mean over the runs that know it and, of several, its range.
func meanAndRange(ms []*recording.Manifest, format func(float64) string, value func(*recording.Manifest) *float64) string {
	var sum float64
	low, high, n := math.Inf(1), math.Inf(-1), 0
	for _, m := range ms {
		if v := value(m); finite(v) {
			sum, low, high, n = sum+*v, math.Min(low, *v), math.Max(high, *v), n+1
		}
	}
	switch {
	case n == 0:
		return ""
	case n == 1 || format(low) == format(high):
		return format(sum / float64(n))
	}
	return fmt.Sprintf("%s on average (%s to %s)", format(sum/float64(n)), format(low), format(high))
}

func started(ms []*recording.Manifest) string {
	first, last := ms[0].Started, ms[0].Started
	for _, m := range ms {
		if m.Started.Before(first) {
			first = m.Started
		}
		if m.Started.After(last) {
			last = m.Started
		}
	}
	s := first.UTC().Format(time.RFC3339)
	if !last.Equal(first) {
		s += " to " + last.UTC().Format(time.RFC3339)
	}
	return s
}

// operations are summed: the tables are of all runs together.
func operations(ms []*recording.Manifest) string {
	sums := map[string]int64{}
	for _, m := range ms {
		if m.Operations != nil {
			sums[m.Operations.Name] += m.Operations.Count
		}
	}
	var parts []string
	for _, name := range sortedKeys(sums) {
		parts = append(parts, fmt.Sprintf("%s × %s", exact(sums[name]), name))
	}
	return strings.Join(parts, ", ")
}

func cost(ms []*recording.Manifest) string {
	var hits, bpf, traps int64
	share := meanAndRange(ms, percent, func(m *recording.Manifest) *float64 {
		if m.Overhead == nil {
			return nil
		}
		hits, bpf, traps = hits+int64(m.Overhead.ProbeHits), bpf+m.Overhead.BPFRunNS, traps+m.Overhead.TrapNS
		return &m.Overhead.Share
	})
	if share == "" {
		return ""
	}
	return fmt.Sprintf("%s; %s probe hits, %s in BPF, %s in traps (estimated)", share, count(float64(hits)), duration(float64(bpf)), duration(float64(traps)))
}

func costByCollector(ms []*recording.Manifest) string {
	type sum struct{ share, hits, ns, seconds, runs float64 }
	sums := map[string]*sum{}
	var order []string
	for _, m := range ms {
		for _, c := range m.Collectors {
			o := c.Overhead
			if o == nil || o.ProbeHits <= 0 || m.DurationNS <= 0 {
				continue
			}
			s := sums[c.Name]
			if s == nil {
				s = &sum{}
				sums[c.Name] = s
				order = append(order, c.Name)
			}
			s.share += o.Share
			s.hits += float64(o.ProbeHits)
			s.ns += float64(o.BPFRunNS + o.TrapNS)
			s.seconds += float64(m.DurationNS) / 1e9
			s.runs++
		}
	}
	var parts []string
	for _, name := range order {
		s := sums[name]
		parts = append(parts, fmt.Sprintf("%s %s (%s hits/s, %s each)", name, percent(s.share/s.runs), count(s.hits/s.seconds), duration(s.ns/s.hits)))
	}
	return strings.Join(parts, "; ")
}

// capturedFor are the parts of the windows; of several runs, their sum.
func capturedFor(ms []*recording.Manifest) string {
	var parts []string
	var sum int64
	for _, m := range ms {
		for _, c := range m.Collectors {
			for _, p := range c.Parts {
				sum += p.EndMonoNS - p.StartMonoNS
				parts = append(parts, fmt.Sprintf("%s from %s on", duration(float64(p.EndMonoNS-p.StartMonoNS)), duration(float64(max(p.StartMonoNS-c.StartMonoNS, 0)))))
			}
		}
	}
	if len(ms) > 1 && len(parts) > 0 {
		return fmt.Sprintf("%s in %s", duration(float64(sum)), plural(len(parts), "part"))
	}
	return strings.Join(parts, ", ")
}

func throttled(ms []*recording.Manifest) string {
	var sum int64
	known := false
	for _, m := range ms {
		if h := m.Host; h != nil && h.Before != nil && h.After != nil && h.Before.Throttles != nil && h.After.Throttles != nil {
			sum, known = sum+*h.After.Throttles-*h.Before.Throttles, true
		}
	}
	if !known {
		return ""
	}
	return exact(sum) + " times"
}

func labels(ms []*recording.Manifest) string {
	keys := map[string]bool{}
	for _, m := range ms {
		for k := range m.Labels {
			keys[k] = true
		}
	}
	var parts []string
	for _, k := range sortedKeys(keys) {
		parts = append(parts, k+"="+each(func(m *recording.Manifest) string { return m.Labels[k] })(ms))
	}
	return strings.Join(parts, "; ")
}

func host(value func(*recording.HostState) string) func([]*recording.Manifest) string {
	return each(func(m *recording.Manifest) string {
		if m.Host == nil || m.Host.Before == nil {
			return ""
		}
		return value(m.Host.Before)
	})
}

// beforeAfter prints a reading at both edges of the windows.
func beforeAfter(unit string, value func(*recording.HostState) *float64) func([]*recording.Manifest) string {
	return func(ms []*recording.Manifest) string {
		edge := func(of func(*recording.HostWindow) *recording.HostState) string {
			return meanAndRange(ms, digits, func(m *recording.Manifest) *float64 {
				if m.Host == nil || of(m.Host) == nil {
					return nil
				}
				return value(of(m.Host))
			})
		}
		before := edge(func(h *recording.HostWindow) *recording.HostState { return h.Before })
		after := edge(func(h *recording.HostWindow) *recording.HostState { return h.After })
		if before == "" && after == "" {
			return ""
		}
		return strings.TrimSpace(orWord(before, "unknown") + " then " + orWord(after, "unknown") + " " + unit)
	}
}
