package render

import (
	"strings"

	"contend/internal/analyze"
)

// handOverFact is what an operation costs in hand-overs, on one side or both, or
// "" where on no side there is as much as one of them in an operation: then they
// are not what takes its time.
func handOverFact(operation string, sides ...*analyze.HandOvers) string {
	worth := false
	for _, h := range sides {
		if h == nil {
			return ""
		}
		worth = worth || h.Wakeups != nil && *h.Wakeups >= 1 || h.Switches != nil && *h.Switches >= 1
	}
	if !worth {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		before, after string
		print         func(float64) string
		of            func(*analyze.HandOvers) *float64
	}{
		{"", " wake-ups", count, func(h *analyze.HandOvers) *float64 { return h.Wakeups }},
		{"", " thread switches", count, func(h *analyze.HandOvers) *float64 { return h.Switches }},
		{"woken → running ", "", duration, func(h *analyze.HandOvers) *float64 { return h.WokenNS }},
		{"ready → running ", "", duration, func(h *analyze.HandOvers) *float64 { return h.ReadyNS }},
	} {
		var values []string
		for _, h := range sides {
			if v := p.of(h); v != nil {
				values = append(values, p.print(*v))
			}
		}
		if len(values) == len(sides) {
			parts = append(parts, p.before+strings.Join(values, " → ")+p.after)
		}
	}
	if operation == "" {
		operation = "operation"
	}
	return "hand-overs a " + clean(operation) + ": " + strings.Join(parts, ", ")
}

// withHandOvers adds the fact, if there is one.
func withHandOvers(facts []string, operation string, sides ...*analyze.HandOvers) []string {
	if f := handOverFact(operation, sides...); f != "" {
		facts = append(facts, f)
	}
	return facts
}
