package trial

import (
	"math/rand/v2"
	"strings"
	"testing"

	"contend/internal/analyze"
)

const bank = "testdata/bank"

// Pairs of a resampled experiment: what an experiment has by default.
const pairs = 10

func pools(t *testing.T) []*Pool {
	t.Helper()
	var all []*Pool
	rounds := 0
	for _, g := range Regimes {
		p, err := LoadPool(bank, g)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		rounds += p.Rounds()
	}
	if rounds < 24 {
		t.Fatalf("the bank has %d pairs, want 24 or more", rounds)
	}
	return all
}

// sample draws n comparisons, from the pools in turn.
func sample(t *testing.T, pools []*Pool, arm string, n int) (tallies map[string]*Tally, all Tally) {
	t.Helper()
	tallies = map[string]*Tally{}
	for i := range n {
		p := pools[i%len(pools)]
		d, err := p.Draw(rand.New(rand.NewPCG(20, uint64(i))), arm, pairs, arm != ArmLonger)
		if err != nil {
			t.Fatal(err)
		}
		o := judge(d, arm == ArmLonger)
		if tallies[p.String()] == nil {
			tallies[p.String()] = &Tally{}
		}
		tallies[p.String()].add(o)
		all.add(o)
	}
	for _, p := range pools {
		t.Logf("%-19s %s", p, tallies[p.String()])
	}
	t.Logf("%-19s %s", "all", all)
	if all.Carried != n {
		t.Errorf("%d of %d comparisons could carry a verdict", all.Carried, n)
	}
	return tallies, all
}

// TestNothingIsFlaggedWhereNothingChanged: two runs of the same program, 2,000
// experiments drawn from the bank. The family of locks is held to 5 %.
func TestNothingIsFlaggedWhereNothingChanged(t *testing.T) {
	const most = 0.065 // 5 % and three standard errors of 2,000 draws
	_, all := sample(t, pools(t), ArmB, 2000)
	if share := float64(all.Flagged) / float64(all.Comparisons); share > most {
		t.Errorf("flagged %.1f %% of A/A experiments, at most %.1f %% may be", 100*share, 100*most)
	}
}

// TestALongerHoldIsFound: a hold 20 % longer in the bank's own recordings.
func TestALongerHoldIsFound(t *testing.T) {
	var locks []*Pool
	for _, p := range pools(t) {
		if p.Subject == "lock" {
			locks = append(locks, p)
		}
	}
	_, all := sample(t, locks, ArmLonger, 500)
	if share := float64(all.Found) / float64(all.Comparisons); share < 0.9 {
		t.Errorf("found the longer hold in %.1f %%, want 90 %%", 100*share)
	}
	if share := float64(all.Flagged) / float64(all.Comparisons); share > 0.05 {
		t.Errorf("flagged another lock beside it in %.1f %%, at most 5 %% may be", 100*share)
	}
}

// TestTheBankHoldsBothLocks: the error rates mean something only where there is
// a lock to find and one to leave alone, both of which are tested.
func TestTheBankHoldsBothLocks(t *testing.T) {
	for _, p := range pools(t) {
		d, err := p.Draw(rand.New(rand.NewPCG(1, 1)), ArmB, pairs, true)
		if err != nil {
			t.Fatal(err)
		}
		var tested []string
		for _, r := range d.Rows {
			if r.By == analyze.ByLock && r.Tested {
				tested = append(tested, r.Name)
			}
		}
		if names := strings.Join(tested, ", "); p.Subject == "lock" && (!strings.Contains(names, trueLock) || !strings.Contains(names, "lookUp")) || len(tested) == 0 {
			t.Errorf("%s: tested are %q", p, names)
		}
	}
}

func TestCountAt(t *testing.T) {
	line := [][2]int64{{10, 0}, {20, 100}, {40, 200}}
	for at, want := range map[int64]float64{11: 10, 20: 100, 30: 150, 40: 200} {
		if got, ok := countAt(line, at); !ok || got != want {
			t.Errorf("countAt(%d) = %v, %v; want %v", at, got, ok, want)
		}
	}
	for _, at := range []int64{9, 10, 41} {
		if _, ok := countAt(line, at); ok {
			t.Errorf("the timeline covers %d", at)
		}
	}
}
