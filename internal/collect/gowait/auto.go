package gowait

import (
	"errors"
	"time"

	"contend/internal/collect/golayout"
	"contend/internal/collect/pace"
	"contend/internal/collect/target"
)

// Modes: which waits are captured, the values of Options.Mode.
const (
	ModeLocks = "locks" // those on semaphores
	ModeAll   = "all"   // every wait
	ModeAuto  = "auto"  // every wait while its cost stays within Options.MaxOverhead, else as ModeLocks, in parts of the window where these are too dear, too
)

const defaultOverhead = 0.02

func (c *Collector) openParks(layout *golayout.Layout) error {
	if c.options.Mode == "" || c.options.Mode == ModeLocks {
		return nil
	}
	p, err := openParks(c, layout)
	if err != nil {
		if c.options.Mode == ModeAuto && !errors.Is(err, target.ErrExited) {
			c.noParks = err
			return nil
		}
		return err
	}
	c.parks = p
	return nil
}

// budget says for how long every wait may be captured in ModeAuto: all the time
// while the cost stays within the bound. Else at either end of the window, for a
// second at most, if that fits into what the whole window may cost; where the
// window's length is not known, at its start only.
type budget struct {
	bound  float64       // the share that all may cost
	length time.Duration // of the window; 0 if not known
}

// Below shortest, too little has happened to tell the cost. More than longest
// tells no more of what else waits.
const (
	shortest    = 100 * time.Millisecond
	longestPart = time.Second
)

// over reports that the first part must end.
func (b budget) over(s pace.Spent) bool {
	if s.Elapsed < shortest || s.Share() <= b.bound {
		return false
	}
	// A quarter may be spent beforehand: as much is for the end, the rest for locks.
	return s.Elapsed >= longestPart || float64(s.Cost) > b.bound*float64(b.length)/4
}

// again returns when a last part is to begin, after the first ended with first
// spent; 0 for never.
func (b budget) again(first pace.Spent) time.Duration {
	if begin := b.length - first.Elapsed; begin > 2*first.Elapsed {
		return begin
	}
	return 0
}

// affords reports whether as much as the first part cost can be spent once more.
func (b budget) affords(s, first pace.Spent) bool {
	base := max(s.Base, b.length)
	return float64(s.Cost+first.Cost) <= b.bound*float64(base)
}
