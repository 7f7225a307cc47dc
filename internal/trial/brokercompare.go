package trial

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// Lock waits of a broker, by contend and by the block profile.
type (
	// Amount is a number of waits and how long they took.
	Amount struct{ Count, NS int64 }

	// Site is one place that waits for a lock.
	Site struct {
		Name           string
		Contend, Block Amount
		RunqueueNS     int64 // from being woken until running, of contend's waits
	}

	// Verified is what a broker's recording says against its block profile.
	Verified struct {
		Broker         string
		WallNS         int64
		Contend, Block Amount // all locks
		Sites          []Site // by the block profile's time, the longest first
		Requeues       int64  // waiters that were woken, lost the lock and queued again
		RunqueueNS     int64  // from being woken until running, of all lock waits
		Report         string
	}
)

// How far contend may be off the block profile, of all locks and of each of the top
// three sites.
const (
	brokerTolerance = 0.10
	siteTolerance   = 0.15
)

// Contended reports whether there is enough to compare: the block profile's waits
// for locks take a thousandth of the time, of one goroutine.
func (v *Verified) Contended() bool { return v.Block.NS > v.WallNS/1000 }

// Off is how far contend's time is off the block profile's, a share.
func (v *Verified) Off() float64 { return off(v.Contend, v.Block) }

func off(got, want Amount) float64 { return float64(got.NS-want.NS) / float64(max(want.NS, 1)) }

// Holds reports whether all figures are within their tolerance.
func (v *Verified) Holds() bool {
	if !v.Contended() {
		return v.Contend.NS <= v.WallNS/500
	}
	if math.Abs(v.Off()) > brokerTolerance {
		return false
	}
	for _, s := range v.Sites[:min(3, len(v.Sites))] {
		if math.Abs(off(s.Contend, s.Block)) > siteTolerance {
			return false
		}
	}
	return true
}

// Verify compares a recording's waits for locks with its block profile.
func Verify(broker string, rec *recording.Recording, report string) (*Verified, error) {
	v := &Verified{Broker: broker, WallNS: rec.Manifest.DurationNS, Report: report}
	waits, err := rec.Profile(recording.Waits)
	if err != nil {
		return nil, err
	}
	block, err := rec.Profile(recording.Block)
	if err != nil {
		return nil, err
	}
	sites := make(map[string]*Site)
	add := func(p *profile.Profile, to func(*Site) *Amount, all *Amount) error {
		count, delay := valueIndex(p, "contentions"), valueIndex(p, "delay")
		if count < 0 || delay < 0 {
			return fmt.Errorf("%s: a profile without contentions and delay", broker)
		}
		for _, s := range p.Sample {
			name := lockSite(s)
			if name == "" || slices.Contains(s.Label[recording.LabelOpen], "end") {
				continue
			}
			if sites[name] == nil {
				sites[name] = &Site{Name: name}
			}
			for _, a := range []*Amount{to(sites[name]), all} {
				a.Count += s.Value[count]
				a.NS += s.Value[delay]
			}
			if run := valueIndex(p, "runqueue"); run >= 0 {
				v.RunqueueNS += s.Value[run]
				sites[name].RunqueueNS += s.Value[run]
			}
		}
		return nil
	}
	if err := add(waits, func(s *Site) *Amount { return &s.Contend }, &v.Contend); err != nil {
		return nil, err
	}
	if err := add(block, func(s *Site) *Amount { return &s.Block }, &v.Block); err != nil {
		return nil, err
	}
	for _, s := range sites {
		v.Sites = append(v.Sites, *s)
	}
	slices.SortFunc(v.Sites, func(a, b Site) int { return int(b.Block.NS - a.Block.NS) })
	for _, c := range rec.Manifest.Collectors {
		if c.Name == recording.Waits {
			v.Requeues = c.Counters["requeues"]
		}
	}
	return v, nil
}

func valueIndex(p *profile.Profile, name string) int {
	return slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == name })
}

// lockFrames begin the names of the functions by which a goroutine comes to wait for
// a lock.
var lockFrames = []string{
	"sync.(*Mutex).Lock", "sync.(*Mutex).lockSlow", "sync.(*RWMutex).Lock", "sync.(*RWMutex).RLock", "internal/poll.(*fdMutex).rwlock",
}

// lockSite is the function and line outside the packages of locks that waited for
// one, "" where the sample waits for something else.
func lockSite(s *profile.Sample) string {
	locks := false
	for _, l := range s.Location {
		for _, line := range l.Line {
			name := strings.TrimPrefix(line.Function.Name, "internal/")
			switch {
			case slices.ContainsFunc(lockFrames, func(f string) bool { return strings.TrimPrefix(f, "internal/") == name }):
				locks = true
			case locks && !strings.HasPrefix(name, "sync.") && !strings.HasPrefix(name, "poll."):
				return fmt.Sprintf("%s:%d", name, line.Line)
			case !locks && !strings.HasPrefix(name, "sync.") && !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, "poll."):
				return ""
			}
		}
	}
	return ""
}
