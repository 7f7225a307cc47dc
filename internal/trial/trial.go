// Package trial puts the tool's verdicts to the test: it makes real recordings
// of processes whose differences are designed, and counts how often a
// comparison flags what did not change and finds what did.
//
// Load comes in three regimes. A lock's waits are noisy in another way when it
// is seldom busy than when its queue never empties, so an error rate found in
// one says little of the others.
package trial

import (
	"strconv"
	"time"

	"contend/internal/analyze"
	"contend/internal/input"
)

// Regime is how much load a subject is under.
type Regime struct {
	Subject string // "handover" or "lock"
	Name    string // "light", "medium", and "saturated" or "heavy"

	workers int           // lock: requests under way at a time
	think   time.Duration // lock: a worker's mean pause between requests

	rate     float64 // handover: messages per second
	inFlight int     // handover
}

// Regimes are the bank's six.
var Regimes = []Regime{
	{Subject: "lock", Name: "light", workers: 6, think: 8 * time.Millisecond},
	{Subject: "lock", Name: "medium", workers: 6, think: 3 * time.Millisecond},
	{Subject: "lock", Name: "saturated", workers: 12},
	{Subject: "handover", Name: "light", rate: 15_000, inFlight: 2000},
	{Subject: "handover", Name: "medium", rate: 25_000, inFlight: 2000},
	{Subject: "handover", Name: "heavy", rate: 40_000, inFlight: 5000},
}

func (r Regime) String() string { return r.Subject + "-" + r.Name }

// Arms of a round. Two of them are the same program under the same load.
const (
	ArmA      = "a"
	ArmB      = "b"
	ArmLonger = "longer" // of the lock target: a commit's hold is 20 % longer
)

// hold is how long a commit of the lock target holds its lock.
func hold(arm string) time.Duration {
	if arm == ArmLonger {
		return 1200 * time.Microsecond
	}
	return time.Millisecond
}

// Arms of a regime.
func (r Regime) Arms() []string {
	if r.Subject == "lock" {
		return []string{ArmA, ArmB, ArmLonger}
	}
	return []string{ArmA, ArmB}
}

// Load reads the runs of one arm, which SERIES/ARM holds.
func load(series, arm string) (analyze.Side, error) {
	side, _, err := input.Side(series + "/" + arm)
	return side, err
}

func itoa(n int) string { return strconv.Itoa(n) }
