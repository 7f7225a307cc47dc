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

func (s Spent) rate() float64 { return float64(s.Cost) / float64(max(s.Elapsed, 1)) }

// Step is what is to be done now.
type Step int

const (
	Stay  Step = iota
	Open       // begin a part
	Close      // end it
)

const (
	// least is the time that tells what observing costs.
	least = 25 * time.Millisecond
	// slack is what an unbroken window may cost above the bound: parts would save
	// no more than they cost in certainty.
	slack = 1.25
	// There is a part in each period of about this length. Shorter parts than
	// shortest would mostly see waits cut by their edges; longer ones leave too few
	// to tell how they vary.
	period   = 250 * time.Millisecond
	shortest = 10 * time.Millisecond
	longest  = 100 * time.Millisecond
	// So many parts tell what the next will cost.
	remembered = 8
	// However much was spent, a share of the bound remains to be spent.
	floor = 8
	// horizon is how much longer a window of unknown length is taken to last.
	horizon = 5 * time.Second
	// Tick is how often the cost is looked at in the beginning, where nothing is due.
	// Later what it may come to in a while matters less, and looking costs, too.
	Tick     = 25 * time.Millisecond
	slowTick = 250 * time.Millisecond
)

// Pacer tells when to observe. The window begins with a part that lasts as long as it
// can be paid for. Once that has ended, periods follow each other without a gap, each
// with one part, at a moment that is as likely as any other. Where a period ends, and
// how long its part is, is set before it begins, by what was seen before: so each
// part stands for its period, without a bias, even where the target is now calm, now
// busy.
type Pacer struct {
	bound  float64
	length time.Duration
	random func(n int64) int64

	open       bool
	opened     Spent         // at the start of the open part
	closed     Spent         // at the end of the last
	start, end time.Duration // of the period
	begin      time.Duration // of its part
	until      time.Duration // the part's end; 0 for the first
	rate       float64       // what the last parts cost in a unit of time
	parts      int           // how many
	idle       float64       // what goes on costing between parts: other collectors
}

// New returns the pacer of a window of a length (0: not known) that has begun, is
// observed, and has spent some already.
func New(bound float64, length time.Duration, s Spent) *Pacer {
	return &Pacer{bound: bound, length: length, random: rand.Int64N, open: true, opened: s}
}

// Whole reports that no part has ended.
func (p *Pacer) Whole() bool { return p.open && p.until == 0 }

// Start is when the period of the open part, or of the next one, begins. Up to there
// the window is represented by the parts before.
func (p *Pacer) Start() time.Duration { return p.start }

// Next tells what to do. After Open or Close its caller has done so.
func (p *Pacer) Next(s Spent) Step {
	switch {
	case !p.open:
		if s.Elapsed < p.begin {
			return Stay
		}
		p.idle = s.since(p.closed).rate()
		p.open, p.opened = true, s
		return Open
	case p.until == 0 && !p.tooDear(s), s.Elapsed < p.until:
		return Stay
	}
	p.learn(s.since(p.opened))
	whole := p.begin == p.start && p.until == p.end
	p.plan(s)
	if whole && p.begin == p.start && p.until == p.end { // there is no gap
		p.opened = s
		return Stay
	}
	p.open, p.closed = false, s
	return Close
}

// learn takes in what a part cost. Where spells of work come and go, following each of
// them would make parts stand for very unlike periods; so the rate is that of the last
// ones together.
func (p *Pacer) learn(part Spent) {
	if part.Elapsed <= 0 {
		return
	}
	p.parts = min(p.parts+1, remembered)
	p.rate += (part.rate() - p.rate) / float64(p.parts)
}

// Interval is how long after a time of the window the cost is looked at again, where
// nothing is due: what it may come to meanwhile is a part of what was, or could have
// been, spent before.
func Interval(elapsed time.Duration) time.Duration {
	return max(Tick, min(elapsed/20, slowTick))
}

// Wait is the time until the pacer is to be asked again.
func (p *Pacer) Wait(elapsed time.Duration) time.Duration {
	at := elapsed + Interval(elapsed)
	switch {
	case p.open && p.until != 0:
		at = min(at, p.until)
	case !p.open:
		at = min(at, p.begin)
	}
	return max(at-elapsed, time.Millisecond)
}

func (p *Pacer) tooDear(s Spent) bool {
	d := s.since(p.opened)
	return d.Elapsed >= least && d.rate() > p.allowed(s, slack*p.bound)
}

// allowed is what may be spent in a unit of time from now on, to come to a share in the end.
func (p *Pacer) allowed(s Spent, share float64) float64 {
	rest := horizon
	if p.length > 0 {
		rest = max(p.length-s.Elapsed, period)
	}
	return (share*busy(s)*float64(s.Elapsed+rest) - float64(s.Cost)) / float64(rest)
}

// busy is how many cores the cost is a share of.
func busy(s Spent) float64 { return float64(s.Base) / float64(max(s.Elapsed, 1)) }

// plan sets the next period: as long as it takes for its part to cost no more than is
// allowed.
func (p *Pacer) plan(s Spent) {
	allowed := max(p.allowed(s, p.bound)-p.idle, p.bound*busy(s)/floor)
	length, every := longest, longest
	if rate := p.rate - p.idle; rate > 0 {
		length = min(max(time.Duration(allowed/rate*float64(period)), shortest), longest)
		every = max(time.Duration(rate/allowed*float64(length)), length)
		if float64(every) < slack*float64(length) {
			every = length
		}
	}
	p.start = max(p.end, s.Elapsed)
	p.end = p.start + every
	p.begin = p.start + time.Duration(p.random(int64(every-length)+1))
	p.until = p.begin + length
}
