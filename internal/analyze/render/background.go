package render

import (
	"fmt"
	"strings"
	"time"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// background is what was observed, where and how: one column a side.
func background(reports []*analyze.Report, titles []string) []table {
	t := table{id: "background", title: "target, host and capture", cols: []column{text("fact")}}
	for _, title := range titles {
		t.cols = append(t.cols, text(title))
	}
	for _, f := range facts {
		r := row{cells: []cell{words(f.label)}}
		known := false
		for _, rep := range reports {
			s := ""
			if rep != nil && rep.Recording != nil {
				s = clean(f.value(rep.Recording))
			}
			known = known || s != ""
			r.cells = append(r.cells, words(orWord(s, "unknown")))
		}
		if known {
			t.rows = append(t.rows, r)
		}
	}
	out := []table{t}
	if rules := rulesTable(reports); len(rules.rows) > 0 {
		out = append(out, rules)
	}
	return out
}

// facts of a manifest, of a series' first run. "" is unknown.
var facts = []struct {
	label string
	value func(*recording.Manifest) string
}{
	{"target", func(m *recording.Manifest) string {
		if m.Target.PID != 0 {
			return fmt.Sprintf("%s (PID %d)", m.Target.Name, m.Target.PID)
		}
		return m.Target.Name
	}},
	{"module", func(m *recording.Manifest) string { return strings.TrimSpace(m.Target.Module + " " + m.Target.Version) }},
	{"build ID", func(m *recording.Manifest) string { return m.Target.BuildID }},
	{"Go", func(m *recording.Manifest) string { return m.Target.Go }},
	{"started", func(m *recording.Manifest) string { return m.Started.UTC().Format(time.RFC3339) }},
	{"ended by", func(m *recording.Manifest) string { return m.Ended }},
	{"operations", func(m *recording.Manifest) string {
		if m.Operations == nil {
			return ""
		}
		return fmt.Sprintf("%s × %s", exact(m.Operations.Count), m.Operations.Name)
	}},
	{"collectors", func(m *recording.Manifest) string {
		var parts []string
		for _, c := range m.Collectors {
			s := c.Name
			for _, k := range sortedKeys(c.Settings) {
				s += fmt.Sprintf(" %s=%s", k, c.Settings[k])
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, "; ")
	}},
	{"left out", func(m *recording.Manifest) string {
		var parts []string
		for _, s := range m.Skipped {
			parts = append(parts, s.Name+": "+s.Reason)
		}
		return strings.Join(parts, "; ")
	}},
	{"cost of recording", func(m *recording.Manifest) string {
		if m.Overhead == nil {
			return ""
		}
		return fmt.Sprintf("%s; %s probe hits, %s in BPF, %s in traps (estimated)", percent(m.Overhead.Share), count(float64(m.Overhead.ProbeHits)),
			duration(float64(m.Overhead.BPFRunNS)), duration(float64(m.Overhead.TrapNS)))
	}},
	{"cost by collector", func(m *recording.Manifest) string {
		var parts []string
		for _, c := range m.Collectors {
			if o := c.Overhead; o != nil && o.ProbeHits > 0 && m.DurationNS > 0 {
				parts = append(parts, fmt.Sprintf("%s %s (%s hits/s, %s each)", c.Name, percent(o.Share),
					count(float64(o.ProbeHits)/(float64(m.DurationNS)/1e9)), duration(float64(o.BPFRunNS+o.TrapNS)/float64(o.ProbeHits))))
			}
		}
		return strings.Join(parts, "; ")
	}},
	{"observed in parts", func(m *recording.Manifest) string {
		var parts []string
		for _, c := range m.Collectors {
			if t := c.Thinned; t != nil {
				parts = append(parts, fmt.Sprintf("%s %s of %s, in %d", c.Name, duration(float64(t.ObservedNS)), duration(float64(m.DurationNS)), t.Parts))
			}
		}
		return strings.Join(parts, "; ")
	}},
	{"every wait captured for", func(m *recording.Manifest) string {
		var parts []string
		for _, c := range m.Collectors {
			for _, p := range c.Parts {
				parts = append(parts, fmt.Sprintf("%s from %s on", duration(float64(p.EndMonoNS-p.StartMonoNS)), duration(float64(max(p.StartMonoNS-c.StartMonoNS, 0)))))
			}
		}
		return strings.Join(parts, ", ")
	}},
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
	{"throttled", func(m *recording.Manifest) string {
		if m.Host == nil || m.Host.Before == nil || m.Host.After == nil || m.Host.Before.Throttles == nil || m.Host.After.Throttles == nil {
			return ""
		}
		return exact(*m.Host.After.Throttles-*m.Host.Before.Throttles) + " times"
	}},
	{"steal", func(m *recording.Manifest) string {
		if s := stealShare(m); s != nil {
			return percent(*s)
		}
		return ""
	}},
	{"labels", func(m *recording.Manifest) string {
		var parts []string
		for _, k := range sortedKeys(m.Labels) {
			parts = append(parts, k+"="+m.Labels[k])
		}
		return strings.Join(parts, ", ")
	}},
	{"contend", func(m *recording.Manifest) string { return strings.TrimSpace(m.Tool.Version + " " + m.Tool.Go) }},
}

func host(value func(*recording.HostState) string) func(*recording.Manifest) string {
	return func(m *recording.Manifest) string {
		if m.Host == nil || m.Host.Before == nil {
			return ""
		}
		return value(m.Host.Before)
	}
}

// beforeAfter prints a reading at both edges of the window.
func beforeAfter(unit string, value func(*recording.HostState) *float64) func(*recording.Manifest) string {
	return func(m *recording.Manifest) string {
		if m.Host == nil {
			return ""
		}
		var parts []string
		known := false
		for _, h := range []*recording.HostState{m.Host.Before, m.Host.After} {
			s := "unknown"
			if h != nil && value(h) != nil {
				s, known = digits(*value(h)), true
			}
			parts = append(parts, s)
		}
		if !known {
			return ""
		}
		return strings.TrimSpace(strings.Join(parts, " then ") + " " + unit)
	}
}

// rulesTable says what each rule set aside, side by side.
func rulesTable(reports []*analyze.Report) table {
	t := table{id: "rules", title: "rules: what was set aside, and by which", cols: []column{text("rule"), text("as")}}
	type key struct{ rule, category string }
	var order []key
	taken := make([]map[key]analyze.RuleTake, len(reports))
	for i, r := range reports {
		taken[i] = map[key]analyze.RuleTake{}
		if r == nil {
			continue
		}
		for _, take := range r.Rules {
			k := key{take.Rule, take.Category}
			if !seen(taken[:i+1], k) {
				order = append(order, k)
			}
			taken[i][k] = take
		}
	}
	for i := range reports {
		side := ""
		if len(reports) == 2 {
			side = [2]string{", baseline", ", candidate"}[i]
		}
		t.cols = append(t.cols, number("wait"+side), number("on contended locks"+side))
	}
	for _, k := range order {
		r := row{cells: []cell{named(clean(k.rule)), words(clean(k.category))}}
		for i := range reports {
			take := taken[i][k]
			r.cells = append(r.cells, figure(duration(float64(take.DelayNS)), float64(take.DelayNS)), figure(duration(float64(take.OnContendedLock)), float64(take.OnContendedLock)))
		}
		t.rows = append(t.rows, r)
	}
	return t
}

func seen[K comparable, V any](maps []map[K]V, k K) bool {
	for _, m := range maps {
		if _, ok := m[k]; ok {
			return true
		}
	}
	return false
}
