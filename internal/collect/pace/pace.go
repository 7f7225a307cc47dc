// Package pace keeps the cost of observing a target within a bound. As long as the
// bound allows it, a window is observed without a gap. Else it is observed in parts,
// at random moments, as long as can be paid for, and what the whole window had is
// estimated from them.
package pace

import (
	"math/rand/v2"
	"time"
)

// Spent is what observing has cost since a window began.
type Spent struct {
	Elapsed time.Duration
	Cost    time.Duration // run time of the programs, and of the traps
	Base    time.Duration // what the cost is a share of: see recording.Overhead
}

// Share is the cost as the bound is one.
func (s Spent) Share() float64 { return float64(s.Cost) / float64(max(s.Base, 1)) }

func (s Spent) since(o Spent) Spent {
	return Spent{s.Elapsed - o.Elapsed, s.Cost - o.Cost, s.Base - o.Base}
}

// Step is what is to be done now.
type Step int

const (
	Stay  Step = iota
	Open       // begin a part
	Close      // end it
)

const (
	// least is the time that tells what a part costs.
	least = 50 * time.Millisecond
	// slack is what an unbroken window may cost above the bound: parts would save
	// no more than they cost in certainty.
	slack = 1.25
	// Parts come about once a period. Shorter ones than shortest would mostly see
	// waits cut by their edges; longer ones leave too few to tell how they vary.
	period   = time.Second
	shortest = 10 * time.Millisecond
	longest  = 250 * time.Millisecond
	// horizon is how much longer a window of unknown length is taken to last.
	horizon = 5 * time.Second
	// Tick is how often the cost is looked at where nothing is due.
	Tick = 50 * time.Millisecond
)

// Pacer tells when to observe. A part is open when it is made.
type Pacer struct {
	bound  float64
	length time.Duration
	random func(n int64) int64

	open    bool
	opened  Spent         // at the start of the open part
	begin   time.Duration // of the next part, or of the open one
	end     time.Duration // of the same; 0 for a part that lasts as long as it can be paid for
	next    time.Duration // start of the period after the one that the next part lies in
	planned bool
	rate    float64 // what a part costs in a unit of time
}

// New returns the pacer of a window of a length (0: not known) that begins now, or
// has begun and spent some already.
func New(bound float64, length time.Duration, s Spent) *Pacer {
	return &Pacer{bound: bound, length: length, random: rand.Int64N, open: true, opened: s}
}

// Whole reports that no part has ended.
func (p *Pacer) Whole() bool { return p.open && p.end == 0 }

// Next tells what to do. After Open or Close its caller has done so.
func (p *Pacer) Next(s Spent) Step {
	switch {
	case !p.open && !p.planned:
		p.plan(s)
		return Stay
	case !p.open:
		if s.Elapsed < p.begin {
			return Stay
		}
		p.open, p.opened = true, s
		return Open
	case p.end == 0 && !p.tooDear(s):
		return Stay
	case s.Elapsed < p.end:
		return Stay
	}
	if d := s.since(p.opened); d.Elapsed > 0 {
		p.rate = float64(d.Cost) / float64(d.Elapsed)
	}
	p.open, p.planned = false, false
	p.plan(s)
	return Close
}

// Wait is the time until the pacer is to be asked again.
func (p *Pacer) Wait(elapsed time.Duration) time.Duration {
	until := elapsed + Tick
	switch {
	case p.open && p.end != 0:
		until = min(until, p.end)
	case !p.open && p.planned:
		until = min(until, p.begin)
	}
	return max(until-elapsed, time.Millisecond)
}

func (p *Pacer) tooDear(s Spent) bool {
	d := s.since(p.opened)
	return d.Elapsed >= least && float64(d.Cost)/float64(d.Elapsed) > slack*p.allowed(s)
}

// allowed is what may be spent in a unit of time from now on.
func (p *Pacer) allowed(s Spent) float64 {
	rest := horizon
	if p.length > 0 {
		rest = max(p.length-s.Elapsed, period/2)
	}
	busy := float64(s.Base) / float64(max(s.Elapsed, 1)) // cores
	return (p.bound*busy*float64(s.Elapsed+rest) - float64(s.Cost)) / float64(rest)
}

// plan sets the next part: one in a period that is as long as it takes for the part
// to cost what is allowed, at a moment that is as likely as any other. Nothing is
// planned while too much is spent already.
func (p *Pacer) plan(s Spent) {
	allowed := p.allowed(s)
	busy := float64(s.Base) / float64(max(s.Elapsed, 1))
	if allowed < p.bound*busy/4 {
		return
	}
	length := longest
	if p.rate > 0 {
		length = min(max(time.Duration(allowed/p.rate*float64(period)), shortest), longest)
	}
	every := max(time.Duration(p.rate/allowed*float64(length)), length)
	start := max(s.Elapsed, p.next)
	p.begin = start + time.Duration(p.random(int64(every-length)+1))
	p.end = p.begin + length
	p.next = start + every
	p.planned = true
}
