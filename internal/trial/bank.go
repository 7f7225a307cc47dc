package trial

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// MakeBank records rounds of every regime into DIR/REGIME/ARM/run-NNN and
// strips them to what a verdict needs. The regimes take turns, so that a busy
// minute of the host does not fall on one of them alone. What DIR holds
// already is kept.
func (r *Recorder) MakeBank(ctx context.Context, dir string, rounds int, log io.Writer) error {
	for round := 1; round <= rounds; round++ {
		for _, g := range Regimes {
			if err := r.bankRound(ctx, dir, g, round); err != nil {
				return err
			}
		}
		fmt.Fprintf(log, "round %d of %d\n", round, rounds)
	}
	return nil
}

func (r *Recorder) bankRound(ctx context.Context, dir string, g Regime, round int) error {
	series := filepath.Join(dir, g.String())
	if err := r.Round(ctx, series, g, round); err != nil {
		return err
	}
	for _, arm := range g.Arms() {
		if err := strip(filepath.Join(series, arm, fmt.Sprintf("run-%03d", round))); err != nil {
			return err
		}
	}
	return nil
}

// strip leaves of a recording what decides verdicts: who waited for which lock
// instance, how long and how often, in how many operations of which process.
func strip(path string) error {
	rec, err := recording.Open(path)
	if err != nil {
		return err
	}
	names, err := rec.Profiles()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == recording.Waits {
			continue
		}
		if err := os.Remove(filepath.Join(path, name+".pb.gz")); err != nil {
			return err
		}
	}
	if w, err := rec.Workload(); err != nil {
		return err
	} else if w != nil {
		if rec.Manifest.Operations == nil {
			rec.Manifest.Operations = &recording.Operations{Name: "message", Count: w.Operations}
		}
		if err := os.Remove(filepath.Join(path, recording.WorkloadFile)); err != nil {
			return err
		}
	}
	p, err := rec.Profile(recording.Waits)
	if err != nil {
		return err
	}
	if err := stripProfile(p, filepath.Join(path, recording.Waits+".pb.gz")); err != nil {
		return err
	}
	m := &rec.Manifest
	m.Host, m.Overhead, m.Warnings, m.Skipped = nil, nil, nil, nil
	for i := range m.Collectors {
		m.Collectors[i].Locks, m.Collectors[i].Counters, m.Collectors[i].Lost = nil, nil, nil
	}
	return recording.WriteJSON(filepath.Join(path, recording.ManifestFile), m)
}

// stripProfile keeps the delays and counts of distinct stacks and locks.
func stripProfile(p *profile.Profile, path string) error {
	for _, s := range p.Sample {
		for k := range s.Label {
			if k != recording.LabelClass && k != recording.LabelLock {
				delete(s.Label, k)
			}
		}
		for k := range s.NumLabel {
			if k != recording.LabelLockAddr {
				delete(s.NumLabel, k)
				delete(s.NumUnit, k)
			}
		}
	}
	for _, m := range p.Mapping {
		m.File = filepath.Base(m.File)
	}
	for _, f := range p.Function {
		f.Filename = filepath.Base(f.Filename)
	}
	p, err := profile.Merge([]*profile.Profile{p}) // equal samples become one
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := p.Write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
