package matrix

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/collect"
	"contend/internal/collect/gowait"
	"contend/internal/recording"
)

// Modes are the ways to capture that every build is held to.
var Modes = []string{gowait.ModeLocks, gowait.ModeAll}

// Result is one cell: a build by a toolchain, recorded in a mode.
type Result struct {
	Toolchain string `json:"toolchain"`
	Build     string `json:"build"`
	Mode      string `json:"mode"`

	// Refused is contend's reason not to record the target; Failed is what kept the
	// cell from being tried.
	Refused string `json:"refused,omitempty"`
	Failed  string `json:"failed,omitempty"`
	// Wrong is what is not as designed: none, if the cell holds.
	Wrong []string `json:"wrong,omitempty"`

	AttachNS int64   `json:"attach_ns"`
	TotalOff float64 `json:"total_off"` // of all locks' time, from the design: a share
	WorstOff float64 `json:"worst_off"` // of the site that is farthest off
	Waits    int64   `json:"waits"`     // for locks, as many as designed
	Requeues int64   `json:"requeues"`
	Tries    int     `json:"tries"` // until it held, or was given up
}

// Holds reports whether the cell is as designed.
func (r *Result) Holds() bool { return r.Refused == "" && r.Failed == "" && len(r.Wrong) == 0 }

// Tolerance is how far a total may be off the design.
const Tolerance = 0.01

// Try runs a target once and holds what is captured to its design.
func (m *Maker) Try(ctx context.Context, exe, toolchain string, b Build, mode string) *Result {
	r := &Result{Toolchain: toolchain, Build: b.Name, Mode: mode}
	dir, err := os.MkdirTemp(m.Scratch, "run")
	if err != nil {
		r.Failed = err.Error()
		return r
	}
	defer os.RemoveAll(dir)
	t, err := start(ctx, exe)
	if err != nil {
		r.Failed = err.Error()
		return r
	}
	defer t.stop()
	began := time.Now()
	s, err := collect.Attach(ctx, collect.Options{
		PID: t.cmd.Process.Pid, Collect: []string{recording.Waits, recording.OffCPU}, Named: true, Waits: mode,
	})
	if err != nil {
		r.Refused = err.Error()
		return r
	}
	r.AttachNS = time.Since(began).Nanoseconds()
	got, sites, err := record(ctx, s, t, dir)
	if err = errors.Join(err, s.Close()); err != nil {
		r.Failed = err.Error()
		return r
	}
	r.compare(got, sites)
	r.compareThread(got.threads, sites)
	r.compareOrder(got.profile, "block profile", func() (*profile.Profile, error) {
		return readProfile(filepath.Join(dir, "block.pb.gz"))
	})
	r.compareOrder(got.profile, "execution trace", func() (*profile.Profile, error) {
		return m.traced(ctx, filepath.Join(dir, "trace.out"))
	})
	return r
}

// captured is what contend made of one window.
type captured struct {
	profile   *profile.Profile
	threads   *profile.Profile
	collector recording.Collector
}

// run is the window: the target does all it has to do inside.
type run struct {
	t     *running
	dir   string
	sites []site
}

func (w *run) Begin(ctx context.Context) error { return ctx.Err() }

func (w *run) End(context.Context) (collect.Ending, error) {
	var err error
	w.sites, err = w.t.do("run " + w.dir)
	return collect.Ending{Reason: recording.EndedDuration}, err
}

func record(ctx context.Context, s *collect.Session, t *running, dir string) (*captured, []site, error) {
	out := filepath.Join(dir, "recording")
	w, err := recording.Create(out, false)
	if err != nil {
		return nil, nil, err
	}
	win := &run{t: t, dir: dir}
	manifest, err := s.Record(ctx, w, win)
	if err == nil {
		err = w.Commit(manifest)
	}
	if err = errors.Join(err, w.Abort()); err != nil {
		return nil, nil, err
	}
	p, err := readProfile(filepath.Join(out, recording.Waits+".pb.gz"))
	if err != nil {
		return nil, nil, err
	}
	threads, err := readProfile(filepath.Join(out, recording.OffCPU+".pb.gz"))
	if err != nil {
		return nil, nil, err
	}
	got := &captured{profile: p, threads: threads}
	for _, c := range manifest.Collectors {
		if c.Name == recording.Waits {
			got.collector = c
		}
	}
	return got, win.sites, nil
}

func (r *Result) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
}

// compare holds counts and times to the design, site by site.
func (r *Result) compare(got *captured, sites []site) {
	r.Requeues = got.collector.Counters["requeues"]
	for _, name := range got.collector.Lost {
		if n := got.collector.Counters[name]; n != 0 {
			r.wrong("%s %d", name, n)
		}
	}
	var wanted, measured, waits int64
	for _, want := range sites {
		lock := want.Class == recording.ClassLock
		if !lock && want.Class != recording.ClassJoin && r.Mode == gowait.ModeLocks {
			continue
		}
		count, delay := sum(got.profile, want)
		if count != want.Waits {
			r.wrong("%s: %d waits, designed %d", want.Function, count, want.Waits)
		}
		off := float64(delay-want.DelayNS) / float64(want.DelayNS)
		if math.Abs(off) > math.Abs(r.WorstOff) {
			r.WorstOff = off
		}
		if math.Abs(off) > Tolerance {
			r.wrong("%s: %.1f ms, designed %.1f", want.Function, float64(delay)/1e6, float64(want.DelayNS)/1e6)
		}
		if lock {
			wanted, measured, waits = wanted+want.DelayNS, measured+delay, waits+count
		}
	}
	r.Waits = waits
	r.TotalOff = float64(measured-wanted) / float64(max(wanted, 1))
	if wanted == 0 || math.Abs(r.TotalOff) > Tolerance {
		r.wrong("locks in all: %.1f ms, designed %.1f", float64(measured)/1e6, float64(wanted)/1e6)
	}
}

// lockedSite is where a goroutine that is locked to its thread waits.
const lockedSite = "main.waitThread"

// compareThread holds the time that a thread slept to what the goroutine waited that
// is locked to it: its stack must be the goroutine's.
func (r *Result) compareThread(threads *profile.Profile, sites []site) {
	i := slices.IndexFunc(sites, func(s site) bool { return s.Function == lockedSite })
	sleeping := slices.IndexFunc(threads.SampleType, func(t *profile.ValueType) bool { return t.Type == "sleeping" })
	if i < 0 || sleeping < 0 {
		r.wrong("no thread is locked")
		return
	}
	var slept int64
	for _, s := range threads.Sample {
		if calls(s, lockedSite) {
			slept += s.Value[sleeping]
		}
	}
	if want := sites[i].DelayNS; math.Abs(float64(slept-want)) > threadTolerance*float64(want) {
		r.wrong("the thread of %s slept %.1f ms, designed %.1f", lockedSite, float64(slept)/1e6, float64(want)/1e6)
	}
}

// threadTolerance is how far a thread's sleep may be off: it begins a little after
// its goroutine's wait, and ends when the scheduler has found the thread.
const threadTolerance = 0.05

// sum adds the waits of a class in a function. What waiters have timed themselves
// has the time until they ran again.
func sum(p *profile.Profile, at site) (count, delay int64) {
	for _, s := range p.Sample {
		if class := s.Label[recording.LabelClass]; len(class) == 0 || class[0] != at.Class || !calls(s, at.Function) {
			continue
		}
		count += s.Value[0]
		delay += s.Value[1]
		if at.Own {
			delay += s.Value[2]
		}
	}
	return count, delay
}

func calls(s *profile.Sample, function string) bool {
	return slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
		return slices.ContainsFunc(l.Line, func(line profile.Line) bool { return line.Function.Name == function })
	})
}

// compareOrder holds the three sites that waited longest for locks, in order, to
// what the runtime says itself.
func (r *Result) compareOrder(got *profile.Profile, by string, truth func() (*profile.Profile, error)) {
	p, err := truth()
	if err != nil {
		r.wrong("no %s: %v", by, err)
		return
	}
	if ours, theirs := topLocks(got), topLocks(p); len(ours) < 3 || !slices.Equal(ours, theirs) {
		r.wrong("top sites %s, by the %s %s", strings.Join(ours, ", "), by, strings.Join(theirs, ", "))
	}
}

// topLocks are the three places in package main where most time was lost to locks.
func topLocks(p *profile.Profile) []string {
	delay := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "delay" })
	by := make(map[string]int64)
	for _, s := range p.Sample {
		if place := lockPlace(s); place != "" && delay >= 0 {
			by[place] += s.Value[delay]
		}
	}
	var places []string
	for place := range by {
		places = append(places, place)
	}
	slices.SortFunc(places, func(a, b string) int { return int(by[b]/1e6 - by[a]/1e6) })
	return places[:min(3, len(places))]
}

// lockPlace is the function and line that called Lock or RLock, "" if none did.
func lockPlace(s *profile.Sample) string {
	locks := false
	for _, l := range s.Location {
		for _, line := range l.Line {
			name := line.Function.Name
			switch {
			case strings.Contains(name, "sync.(*Mutex).Lock"), strings.Contains(name, "sync.(*RWMutex).Lock"), strings.Contains(name, "sync.(*RWMutex).RLock"):
				locks = true
			case locks && strings.HasPrefix(name, "main."):
				return fmt.Sprintf("%s:%d", name, line.Line)
			}
		}
	}
	return ""
}

func readProfile(path string) (*profile.Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return profile.Parse(f)
}

// traced has the go command's own tool sum up what the execution trace says of
// waits for locks: it reads the traces of all versions. (That of Go 1.22.0 serves a web
// page instead.)
func (m *Maker) traced(ctx context.Context, path string) (*profile.Profile, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "trace", "-pprof=sync", path)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, lastLine(exit.Stderr))
		}
		return nil, err
	}
	return profile.ParseData(out)
}
