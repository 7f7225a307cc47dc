package render

import (
	"io"
	"regexp"
	"strings"

	"golang.org/x/perf/benchfmt"

	"contend/internal/analyze"
)

// writeBenchstat writes the waits of every run as lines of the Go benchmark
// format, so that benchstat and what is built on it can keep and compare them:
//
//	benchstat -col side FILE
//
// A line is one run, in seconds: benchfmt leaves a zero in "ns" unscaled, which
// would make a unit of its own of it. The key "side" tells baseline from candidate. benchstat
// compares the sides as unpaired samples; contend's verdicts use the pairs, and
// see smaller changes where the host's speed drifts.
func writeBenchstat(w io.Writer, d *analyze.Diff) error {
	unit := "wait-sec/op"
	switch d.Per {
	case analyze.PerSecond:
		unit = "wait-sec/s"
	case analyze.PerRecording:
		unit = "wait-sec/recording"
	}
	out := benchfmt.NewWriter(w)
	better := &benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: unit, Key: "better"}, OrigUnit: unit, Value: "lower"}
	if err := out.Write(better); err != nil {
		return err
	}
	for side, name := range []string{"baseline", "candidate"} {
		for i := range d.Rows {
			r := &d.Rows[i]
			if r.By != analyze.ByLock && r.By != "total" {
				continue
			}
			for _, v := range [2]analyze.Value{r.Baseline, r.Candidate}[side].Runs {
				err := out.Write(&benchfmt.Result{
					Config: []benchfmt.Config{{Key: "side", Value: []byte(name), File: true}},
					Name:   benchfmt.Name(benchName(r)), Iters: 1,
					Values: []benchfmt.Value{{Value: v / 1e9, Unit: unit}},
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// notInBenchName is what would end a benchmark's name, or a part of it; processors
// is what would be read as GOMAXPROCS.
var (
	notInBenchName = regexp.MustCompile(`[\s/]+`)
	processors     = regexp.MustCompile(`-([0-9]+)$`)
)

func benchName(r *analyze.Row) string {
	if r.By == "total" {
		return "Blocked"
	}
	name := notInBenchName.ReplaceAllString(strings.TrimSpace(clean(r.Name)), "_")
	return "Lock/lock=" + processors.ReplaceAllString(name, "_$1")
}
