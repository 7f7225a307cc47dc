package render

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"contend/internal/analyze"
)

// JSONL is the export of samples as one JSON object a line.
const JSONL Format = "jsonl"

// exportColumn is one column of the export. CSV cells are text, "" where the
// value is unknown; in JSON the key is left out instead.
type exportColumn struct {
	name string
	cell func(*analyze.Sample) string
	json func(*analyze.Sample) any // nil for a plain string
}

// exportColumns is the export's schema; docs/export.md describes every column
// in this order, which a test holds.
var exportColumns = []exportColumn{
	whole("run", func(s *analyze.Sample) int64 { return int64(s.Run) }),
	word("recording", func(s *analyze.Sample) string { return s.Recording }),
	whole("process", func(s *analyze.Sample) int64 { return int64(s.Process) }),
	known("wall_ns", func(s *analyze.Sample) (int64, bool) { return s.WallNS, s.WallNS > 0 }),
	known("operations", func(s *analyze.Sample) (int64, bool) { return value(s.Operations) }),
	word("profile", func(s *analyze.Sample) string { return s.Profile }),
	word("category", func(s *analyze.Sample) string { return s.Category }),
	word("rule", func(s *analyze.Sample) string { return s.Rule }),
	word("class", func(s *analyze.Sample) string { return s.Class }),
	word("reason", func(s *analyze.Sample) string { return s.Reason }),
	word("lock", func(s *analyze.Sample) string { return s.Lock }),
	word("lock_kind", func(s *analyze.Sample) string { return s.LockKind }),
	word("lock_addr", func(s *analyze.Sample) string {
		if s.LockAddr == 0 {
			return ""
		}
		return "0x" + strconv.FormatUint(s.LockAddr, 16)
	}),
	word("waker", func(s *analyze.Sample) string { return s.Waker }),
	word("state", func(s *analyze.Sample) string { return s.State }),
	word("charge", func(s *analyze.Sample) string { return s.Charge }),
	{name: "open", cell: func(s *analyze.Sample) string { return strconv.FormatBool(s.Open) }, json: func(s *analyze.Sample) any { return s.Open }},
	word("boundary", func(s *analyze.Sample) string { return s.Boundary }),
	word("blocker", func(s *analyze.Sample) string { return s.Blocker }),
	word("caller", func(s *analyze.Sample) string { return s.Caller }),
	word("root", func(s *analyze.Sample) string { return s.Root }),
	whole("contentions", func(s *analyze.Sample) int64 { return s.Contentions }),
	whole("delay_ns", func(s *analyze.Sample) int64 { return s.DelayNS }),
	whole("runqueue_ns", func(s *analyze.Sample) int64 { return s.RunQueueNS }),
	known("least_ns", func(s *analyze.Sample) (int64, bool) { return value(s.LeastNS) }),
	known("most_ns", func(s *analyze.Sample) (int64, bool) { return s.MostNS, s.MostNS > 0 }),
	{name: "stack", cell: foldedStack, json: func(s *analyze.Sample) any { return s.Stack }},
}

func word(name string, get func(*analyze.Sample) string) exportColumn {
	return exportColumn{name: name, cell: func(s *analyze.Sample) string { return csvName(get(s)) }, json: func(s *analyze.Sample) any {
		if v := get(s); v != "" {
			return v
		}
		return nil
	}}
}

func whole(name string, get func(*analyze.Sample) int64) exportColumn {
	return known(name, func(s *analyze.Sample) (int64, bool) { return get(s), true })
}

func known(name string, get func(*analyze.Sample) (int64, bool)) exportColumn {
	return exportColumn{name: name, cell: func(s *analyze.Sample) string {
		if v, ok := get(s); ok {
			return exact(v)
		}
		return ""
	}, json: func(s *analyze.Sample) any {
		if v, ok := get(s); ok {
			return v
		}
		return nil
	}}
}

func value(p *int64) (int64, bool) {
	if p == nil {
		return 0, false
	}
	return *p, true
}

// foldedStack is a stack in one cell, as writeFolded has it.
func foldedStack(s *analyze.Sample) string {
	names := make([]string, len(s.Stack))
	for i, f := range s.Stack {
		names[i] = foldedName(f.Function)
	}
	return csvName(strings.Join(names, ";"))
}

// Samples writes one row a sample, as CSV or JSONL.
func Samples(w io.Writer, samples iter.Seq[*analyze.Sample], f Format) error {
	switch f {
	case CSV:
		return samplesCSV(w, samples)
	case JSONL:
		return samplesJSONL(w, samples)
	}
	return fmt.Errorf("unknown format %q; choose csv or jsonl", f)
}

func samplesCSV(w io.Writer, samples iter.Seq[*analyze.Sample]) error {
	out := csv.NewWriter(w)
	cells := make([]string, len(exportColumns))
	for i, c := range exportColumns {
		cells[i] = c.name
	}
	if err := out.Write(cells); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	for s := range samples {
		for i, c := range exportColumns {
			cells[i] = c.cell(s)
		}
		if err := out.Write(cells); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func samplesJSONL(w io.Writer, samples iter.Seq[*analyze.Sample]) error {
	out := bufio.NewWriter(w)
	for s := range samples {
		// By hand, so that keys stand in the columns' order.
		sep := "{"
		for _, c := range exportColumns {
			v := c.json(s)
			if v == nil {
				continue
			}
			b, err := json.Marshal(v)
			if err != nil {
				return fmt.Errorf("write JSONL: %w", err)
			}
			fmt.Fprintf(out, "%s%q:%s", sep, c.name, b)
			sep = ","
		}
		out.WriteString("}\n")
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write JSONL: %w", err)
	}
	return nil
}
