package trial

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"contend/internal/analyze"
)

// Tally counts the outcomes of comparisons.
type Tally struct {
	Comparisons int
	Flagged     int // A/A: some lock was called changed. Longer hold: some lock besides the true one was.
	Found       int // longer hold: the true lock was called regressed
	Carried     int // comparisons that could carry a verdict at all
}

func (t *Tally) add(o Outcome) {
	t.Comparisons++
	if len(o.Flagged) > 0 {
		t.Flagged++
	}
	if o.Found {
		t.Found++
	}
	if o.Verdict != analyze.Differ {
		t.Carried++
	}
}

func (t Tally) String() string {
	share := func(n int) float64 { return 100 * float64(n) / float64(max(t.Comparisons, 1)) }
	return fmt.Sprintf("%d comparisons: flagged %.1f %%, found %.1f %%", t.Comparisons, share(t.Flagged), share(t.Found))
}

// Outcome is what one comparison said.
type Outcome struct {
	Verdict string   `json:"verdict"`
	Found   bool     `json:"found"`   // the true lock regressed
	Flagged []string `json:"flagged"` // locks called changed that were not
	Ratio   float64  `json:"ratio"`   // of the true lock, 0 if it is not there
	P       float64  `json:"p"`
}

// trueLock is in the name of the lock whose hold the longer arm lengthens.
const trueLock = "commit"

// judge reads a comparison. changed says that the true lock really changed.
func judge(d *analyze.Diff, changed bool) Outcome {
	o := Outcome{Verdict: d.Verdict, Flagged: []string{}}
	for _, r := range d.Rows {
		if r.By != analyze.ByLock {
			continue
		}
		isTrue := strings.Contains(r.Name, trueLock)
		if isTrue && r.Ratio != nil {
			o.Ratio = *r.Ratio
		}
		if isTrue && r.PAdjusted != nil {
			o.P = *r.PAdjusted
		}
		switch {
		case isTrue && changed:
			o.Found = r.Verdict == analyze.Regressed
		case r.Tested && slices.Contains([]string{analyze.Regressed, analyze.Improved, analyze.New, analyze.Gone}, r.Verdict):
			o.Flagged = append(o.Flagged, r.Name+" "+r.Verdict)
		}
	}
	return o
}

// Pool is the runs of one regime: of every round, one run of each arm.
type Pool struct {
	Regime
	arms map[string][]analyze.Run
}

// LoadPool reads a regime's runs from a bank.
func LoadPool(bank string, g Regime) (*Pool, error) {
	p := &Pool{Regime: g, arms: map[string][]analyze.Run{}}
	for _, arm := range g.Arms() {
		side, err := load(bank+"/"+g.String(), arm)
		if err != nil {
			return nil, err
		}
		p.arms[arm] = side.Runs
		if len(side.Runs) != len(p.arms[ArmA]) {
			return nil, fmt.Errorf("%s: arm %s has %d runs, arm %s %d", g, arm, len(side.Runs), ArmA, len(p.arms[ArmA]))
		}
	}
	return p, nil
}

// Rounds is the number of rounds in the pool.
func (p *Pool) Rounds() int { return len(p.arms[ArmA]) }

// Draw compares arms over rounds drawn from the pool with replacement. swap
// exchanges the two runs of a drawn round by the toss of a coin, as an
// experiment's random order does where both arms are the same.
func (p *Pool) Draw(rng *rand.Rand, arm string, pairs int, swap bool) (*analyze.Diff, error) {
	base, cand := analyze.Side{Name: ArmA}, analyze.Side{Name: arm}
	for i := range pairs {
		round := rng.IntN(p.Rounds())
		a, b := p.arms[ArmA][round], p.arms[arm][round]
		if swap && rng.IntN(2) == 1 {
			a, b = b, a
		}
		base.Runs = append(base.Runs, replicate(a, i))
		cand.Runs = append(cand.Runs, replicate(b, i))
	}
	return analyze.Compare(base, cand, analyze.Options{Paired: true})
}

// replicate makes a drawn run a replicate of its own: the same process may be
// drawn twice.
func replicate(r analyze.Run, i int) analyze.Run {
	m := *r.Manifest
	m.Target.StartTime = m.Target.StartTime<<8 | uint64(i)
	r.Manifest, r.Pair = &m, i+1
	return r
}
