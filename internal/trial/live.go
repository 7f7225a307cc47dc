package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// Experiment is one line of the live trials: a series of rounds, each of which
// ran the lock target twice as it is and once with the longer hold. Same compares
// the equal arms, Longer the first of them with the changed one.
type Experiment struct {
	Number  int       `json:"number"`
	Regime  string    `json:"regime"`
	Pairs   int       `json:"pairs"`
	Ended   time.Time `json:"ended"`
	Seconds float64   `json:"seconds"`
	Load    float64   `json:"load"` // processes that wanted a CPU, over the last minute
	Same    Outcome   `json:"same"`
	Longer  Outcome   `json:"longer"`
}

// Live carries out experiments until a file holds n of them, one line each. It
// begins where the file ends. Recordings live in scratch and are removed.
func (r *Recorder) Live(ctx context.Context, file, scratch string, n, pairs int, log io.Writer) error {
	done, err := ReadExperiments(file)
	if err != nil {
		return err
	}
	var regimes []Regime
	for _, g := range Regimes {
		if g.Subject == "lock" {
			regimes = append(regimes, g)
		}
	}
	for number := len(done) + 1; number <= n; number++ {
		e, err := r.experiment(ctx, filepath.Join(scratch, fmt.Sprintf("experiment-%03d", number)), regimes[number%len(regimes)], number, pairs)
		if err != nil {
			return err
		}
		if err := appendLine(file, e); err != nil {
			return err
		}
		fmt.Fprintf(log, "%d of %d: %s: same %s %v; longer hold %.2f× %s, others %v (%.0f s)\n", number, n, e.Regime,
			e.Same.Verdict, e.Same.Flagged, e.Longer.Ratio, e.Longer.Verdict, e.Longer.Flagged, e.Seconds)
	}
	return nil
}

func (r *Recorder) experiment(ctx context.Context, dir string, g Regime, number, pairs int) (*Experiment, error) {
	began := time.Now()
	for round := 1; round <= pairs; round++ {
		if err := r.Round(ctx, dir, g, round); err != nil {
			return nil, err
		}
	}
	e := &Experiment{Number: number, Regime: g.String(), Pairs: pairs, Load: loadAverage()}
	for _, c := range []struct {
		arm string
		out *Outcome
	}{{ArmB, &e.Same}, {ArmLonger, &e.Longer}} {
		d, err := comparison(dir, c.arm)
		if err != nil {
			return nil, err
		}
		*c.out = judge(d, c.arm == ArmLonger)
	}
	e.Ended, e.Seconds = time.Now().UTC().Round(time.Second), time.Since(began).Seconds()
	return e, os.RemoveAll(dir)
}

// comparison compares two arms of a series that Round made.
func comparison(dir, arm string) (*analyze.Diff, error) {
	base, err := load(dir, ArmA)
	if err != nil {
		return nil, err
	}
	cand, err := load(dir, arm)
	if err != nil {
		return nil, err
	}
	for _, s := range []analyze.Side{base, cand} {
		for i := range s.Runs {
			s.Runs[i].Pair = i + 1
		}
	}
	return analyze.Compare(base, cand, analyze.Options{Paired: true})
}

// ReadExperiments reads the lines of a trial; a file that is not there has none.
func ReadExperiments(file string) ([]Experiment, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Experiment
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e Experiment
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, len(all)+1, err)
		}
		all = append(all, e)
	}
	return all, lines.Err()
}

func appendLine(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := recording.MkdirAll(filepath.Dir(file)); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// loadAverage is the first figure of /proc/loadavg, 0 when unknown.
func loadAverage() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var load float64
	_, _ = fmt.Sscan(string(b), &load) // 0 stays unknown
	return load
}
