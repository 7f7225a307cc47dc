package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"contend/internal/recording"
)

// A sweep runs every arm in every cell once a round, and the table has medians
// and ratios of them.
func TestSweep(t *testing.T) {
	var made []string
	cell := func(name string, rate map[string]int64) SweepCell {
		return SweepCell{Settings: []string{name}, Measure: func(_ context.Context, arm string, w time.Duration) (*recording.WorkloadResult, error) {
			made = append(made, name+"/"+arm)
			return &recording.WorkloadResult{
				ElapsedNS: int64(w), Operations: rate[arm], Verify: recording.Verify{OK: true},
				Figures: map[string]float64{"wakeups": float64(2 * rate[arm]), "max_in_flight": 7},
			}, nil
		}}
	}
	o := SweepOptions{
		Arms: []string{"x", "y"}, Rounds: 3, Window: time.Second, Seed: 1,
		Cells: []SweepCell{cell("one", map[string]int64{"x": 1000, "y": 3000}), cell("two", map[string]int64{"x": 5000, "y": 5000})},
	}
	rows, err := Sweep(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for round := range slices.Chunk(made, 4) {
		slices.Sort(round)
		if got := fmt.Sprint(round); got != "[one/x one/y two/x two/y]" {
			t.Errorf("a round of %s", got)
		}
	}
	var b strings.Builder
	if err := WriteSweep(&b, o, rows); err != nil {
		t.Fatal(err)
	}
	want := `| settings | arm | op/s | ÷ x | end to end p50 µs | max_in_flight | wakeups |
| --- | --- | --- | --- | --- | --- | --- |
| one | x | 1 k (1–1) | 1 × | 0 | 7 | 2 |
| one | y | 3 k (3–3) | 3 × | 0 | 7 | 2 |
| two | x | 5 k (5–5) | 1 × | 0 | 7 | 2 |
| two | y | 5 k (5–5) | 1 × | 0 | 7 | 2 |
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestSweepStopsAtAnInvalidRun(t *testing.T) {
	for want, measure := range map[string]func(context.Context, string, time.Duration) (*recording.WorkloadResult, error){
		"arm x with k v: the run is not valid: 3 lost": func(context.Context, string, time.Duration) (*recording.WorkloadResult, error) {
			return &recording.WorkloadResult{Verify: recording.Verify{Lost: 3}}, nil
		},
		"arm x with k v: broken": func(context.Context, string, time.Duration) (*recording.WorkloadResult, error) {
			return nil, errors.New("broken")
		},
	} {
		_, err := Sweep(t.Context(), SweepOptions{Arms: []string{"x"}, Rounds: 1, Cells: []SweepCell{{Settings: []string{"k v"}, Measure: measure}}})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
