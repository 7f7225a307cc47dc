package experiment

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// SweepOptions say what to run over which settings.
type SweepOptions struct {
	Arms   []string // the first is what the others are compared with
	Cells  []SweepCell
	Rounds int           // how often each arm runs in each cell
	Window time.Duration // of each run, at least
	Seed   uint64        // of the order; drawn when zero
	// Progress gets one line a round; none when nil.
	Progress io.Writer
}

// SweepCell is one combination of settings.
type SweepCell struct {
	Settings []string // as "name value"
	// Measure runs an arm with them in a fresh process for one window.
	Measure func(ctx context.Context, arm string, window time.Duration) (*recording.WorkloadResult, error)
}

// SweepRow is an arm in a cell: its unrecorded windows, one a round.
type SweepRow struct {
	Cell int
	Arm  string
	Runs []*recording.WorkloadResult
}

// Sweep runs every arm in every cell, round by round and each round in a
// random order, so that drift strikes all alike. A run whose verification
// failed is an error.
func Sweep(ctx context.Context, o SweepOptions) ([]SweepRow, error) {
	var rows []SweepRow
	for i := range o.Cells {
		for _, arm := range o.Arms {
			rows = append(rows, SweepRow{Cell: i, Arm: arm})
		}
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	for round := range o.Rounds {
		for _, i := range rng.Perm(len(rows)) {
			cell := o.Cells[rows[i].Cell]
			r, err := cell.Measure(ctx, rows[i].Arm, o.Window)
			if err == nil && !r.Verify.OK {
				err = fmt.Errorf("the run is not valid: %s", Why(r.Verify))
			}
			if err != nil {
				return nil, fmt.Errorf("arm %s with %s: %w", rows[i].Arm, strings.Join(cell.Settings, ", "), err)
			}
			rows[i].Runs = append(rows[i].Runs, r)
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "round %d of %d done\n", round+1, o.Rounds)
		}
	}
	return rows, nil
}

// Measure runs an arm in a fresh process for one unrecorded window. The
// result's verdict is over everything that process ever did.
func (l *Live) Measure(ctx context.Context, arm string, length time.Duration) (r *recording.WorkloadResult, err error) {
	s, err := l.start(ctx, arm)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := s.Close(); err == nil {
			err = closeErr
		}
	}()
	if r, err = s.Window(ctx, length); err != nil {
		return nil, err
	}
	final, err := s.process.Stop(ctx)
	if err != nil {
		return nil, err
	}
	if r.Verify.OK {
		r.Verify = final.Verify
	}
	return r, nil
}

// WriteSweep writes the rows as a markdown table: medians over rounds, the
// ratio to the cell's first arm by pairs of one round, and the workload's own
// figures, per operation but for highest marks.
func WriteSweep(w io.Writer, o SweepOptions, rows []SweepRow) error {
	var names []string
	for _, row := range rows {
		for name := range row.Runs[0].Figures {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	head := []string{"settings", "arm", "op/s", "÷ " + o.Arms[0], "end to end p50 µs"}
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(append(head, names...))
	line(slices.Repeat([]string{"---"}, len(head)+len(names)))
	for i, row := range rows {
		first := rows[i-i%len(o.Arms)]
		rate := of(row, throughput)
		cells := []string{
			strings.Join(o.Cells[row.Cell].Settings, ", "), row.Arm, between(rate),
			ratioText(analyze.PairedRatio(of(first, throughput), rate)),
			digits(estimate(of(row, endToEndP50)).Center / 1e3),
		}
		for _, name := range names {
			cells = append(cells, digits(estimate(of(row, sweepFigure(name))).Center))
		}
		line(cells)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func of(row SweepRow, q quantity) []float64 {
	var v []float64
	for _, r := range row.Runs {
		v = append(v, q(r))
	}
	return v
}

func sweepFigure(name string) quantity {
	return func(r *recording.WorkloadResult) float64 {
		if recording.IsHighest(name) {
			return r.Figures[name]
		}
		return r.Figures[name] / float64(max(r.Operations, 1))
	}
}

// digits prints three of them, without an exponent.
func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// between is a rate's median and range.
func between(v []float64) string {
	return fmt.Sprintf("%s k (%s–%s)", digits(estimate(v).Center/1e3), digits(slices.Min(v)/1e3), digits(slices.Max(v)/1e3))
}
