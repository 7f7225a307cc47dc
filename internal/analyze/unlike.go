package analyze

import (
	"cmp"
	"fmt"
	"go/version"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
)

// diffWarnings are what a reader of a comparison must know: why it carries no
// verdict, and where unlike things are compared. The latter are given apart as
// well: with --strict they are refused.
func (x *comparison) diffWarnings() (warnings, unlike []string) {
	warnings = []string{}
	add := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	unlikeThings := func(format string, args ...any) {
		unlike = append(unlike, fmt.Sprintf(format, args...))
		warnings = append(warnings, unlike[len(unlike)-1])
	}
	if x.differ != "" && !x.identical() {
		add("no verdict: %s", x.differ)
	}
	if n := x.unpaired(); x.options.Paired && n > 0 {
		add("%d runs have no partner and are in the sums only", n)
	}
	if x.per == PerRecording {
		add("neither operations nor window lengths are known: whole recordings are compared")
	}
	b, c := x.sides[0], x.sides[1]
	x.compareFacts(unlikeThings, b, c)
	if p, q := distinct(b, moduleOf), distinct(c, moduleOf); p != "" && q != "" && p != q {
		add("the targets differ: %s and %s", p, q)
	}
	x.compareGoVersions(add, unlikeThings)
	for i, r := range x.reports {
		for _, s := range x.sides[i].sourceNotes() {
			add("%s: %s", sideName(i), s)
		}
		if n := lostTotal(r.Lost); n > 0 {
			add("the %s lost %d events or stacks: its totals are lower bounds", sideName(i), n)
		}
		for _, s := range x.sides[i].manifestWarnings() {
			add("%s: %s", sideName(i), s)
		}
	}
	return warnings, unlike
}

// compareGoVersions warns of different runtimes, and calls the sides unlike
// where the profile's meaning changed between them.
func (x *comparison) compareGoVersions(add, unlike func(string, ...any)) {
	p, q := x.sides[0].goVersions(), x.sides[1].goVersions()
	if len(p) == 0 || len(q) == 0 {
		return
	}
	if a, b := strings.Join(p, " / "), strings.Join(q, " / "); a != b {
		add("the Go versions differ: %s and %s", a, b)
	}
	if x.profile == recording.Mutex && crosses("go1.22", p, q) {
		unlike("the mutex profile changed its meaning in Go 1.22, from the delay of one waiter to that of all: these profiles do not compare")
	}
	// https://go.dev/issue/44192: before Go 1.17 a sampled block profile over-weighs long waits.
	if x.profile == recording.Block && crosses("go1.17", p, q) {
		unlike("the block profile changed its sampling in Go 1.17, before which rare long waits weigh too much: these profiles do not compare")
	}
}

// crosses tells whether some version is before a release and some is not.
func crosses(release string, sides ...[]string) bool {
	var before, since bool
	for _, v := range slices.Concat(sides...) {
		if v, _, _ = strings.Cut(v, " "); version.IsValid(v) {
			before = before || version.Compare(v, release) < 0
			since = since || version.Compare(v, release) >= 0
		}
	}
	return before && since
}

func sideName(i int) string { return [...]string{"baseline", "candidate"}[i] }

// unpaired counts the runs that are in no pair.
func (x *comparison) unpaired() int {
	n := len(x.sides[0].runs) + len(x.sides[1].runs)
	for _, p := range x.pairs {
		n -= len(p[0]) + len(p[1])
	}
	return n
}

// Limits beyond which the sides are unlike.
const (
	unlikeLength = 0.05  // of the windows
	unlikeClock  = 0.05  // of the measured clock
	unlikeCost   = 0.01  // recording's share of the targets' time
	unlikeLoss   = 0.001 // lost events, of the waits seen
	unlikeSteal  = 0.01  // share of the processors' time
)

// compareFacts names every fact on which the sides differ.
func (x *comparison) compareFacts(unlike func(string, ...any), b, c *sideData) {
	if p, q := meanWall(b), meanWall(c); farApart(p, q, unlikeLength) && !x.sameOperations(b, c) {
		unlike("the windows differ in length: %s and %s", time.Duration(p).Round(time.Millisecond), time.Duration(q).Round(time.Millisecond))
	}
	if x.reports[0].Mode != x.reports[1].Mode {
		unlike("the modes differ: %s and %s see different waits", x.reports[0].Mode, x.reports[1].Mode)
	}
	facts := []struct {
		what string
		of   func(*runData) string
	}{
		{"hosts", hostOf},
		{"clock settings", clockOf},
		{"collectors", collectorsOf},
	}
	for _, f := range facts {
		if p, q := distinct(b, f.of), distinct(c, f.of); p != "" && q != "" && p != q {
			unlike("the %s differ: %s and %s", f.what, p, q)
		}
	}
	for _, key := range settingKeys(x.profile, b, c) {
		of := func(rd *runData) string {
			if col := rd.collector(x.profile); col != nil {
				return cmp.Or(col.Settings[key], "unset")
			}
			return ""
		}
		if p, q := distinct(b, of), distinct(c, of); p != "" && q != "" && p != q {
			unlike("the settings of %s differ: %s is %s and %s", x.profile, key, p, q)
		}
	}
	if p, q := meanOver(b, measuredClock), meanOver(c, measuredClock); farApart(p, q, unlikeClock) {
		unlike("the measured clocks differ: %.0f and %.0f", p, q)
	}
	if p, q := meanOver(b, costOf), meanOver(c, costOf); p > 0 && q > 0 && math.Abs(p-q) > unlikeCost {
		unlike("recording cost %.1f %% and %.1f %% of the targets' time", 100*p, 100*q)
	}
	if p, q := meanOver(b, stealOf), meanOver(c, stealOf); math.Abs(p-q) > unlikeSteal { // false where a side does not know
		unlike("the hypervisor took %.1f %% and %.1f %% of the processors' time (steal)", 100*p, 100*q)
	}
	if p, q := meanOver(b, throttlesOf), meanOver(c, throttlesOf); p > 0 && q == 0 || p == 0 && q > 0 {
		unlike("the processor was throttled on one side only")
	}
	if p, q := x.lossShare(0), x.lossShare(1); math.Abs(p-q) > unlikeLoss {
		unlike("loss differs: %.2g %% and %.2g %% of the events", 100*p, 100*q)
	}
}

// farApart tells whether two known values differ by more than a part of the first.
func farApart(p, q, part float64) bool { return p > 0 && q > 0 && math.Abs(q-p)/p > part }

// sameOperations tells whether the windows are counted in operations: their
// lengths differ then because the sides' speeds do.
func (x *comparison) sameOperations(b, c *sideData) bool {
	mean := func(sd *sideData) float64 {
		return meanOver(sd, func(rd *runData) float64 { n, _, _ := rd.Run.operations(); return float64(n) })
	}
	p, q := mean(b), mean(c)
	return x.per == PerOperation && p > 0 && q > 0 && !farApart(p, q, unlikeLength)
}

func target(rd *runData) recording.Target {
	if rd.Manifest == nil {
		return recording.Target{}
	}
	return rd.Manifest.Target
}

func moduleOf(rd *runData) string { return target(rd).Module }

// collectorsOf lists what was collected: each costs the target something.
func collectorsOf(rd *runData) string {
	if rd.Manifest == nil {
		return ""
	}
	var names []string
	for _, c := range rd.Manifest.Collectors {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return strings.Join(names, "+")
}

func hostOf(rd *runData) string {
	if rd.Manifest == nil || rd.Manifest.Host == nil || rd.Manifest.Host.Before == nil {
		return ""
	}
	h := rd.Manifest.Host.Before
	return strings.Join(slices.DeleteFunc([]string{h.Hostname, h.CPUModel, h.Kernel}, func(s string) bool { return s == "" }), ", ")
}

func clockOf(rd *runData) string {
	if rd.Manifest == nil || rd.Manifest.Host == nil || rd.Manifest.Host.Before == nil {
		return ""
	}
	h := rd.Manifest.Host.Before
	s := h.Governor
	if h.Turbo != nil {
		s += fmt.Sprintf(" turbo=%v", *h.Turbo)
	}
	return strings.TrimSpace(s)
}

// settingKeys are the names of all settings of a profile's collector, without
// what two processes seldom share: the endpoint's address, and measurements of
// the recorder (…_ns).
func settingKeys(profileName string, sides ...*sideData) []string {
	keys := map[string]bool{}
	for _, sd := range sides {
		for _, rd := range sd.runs {
			if col := rd.collector(profileName); col != nil {
				for k := range col.Settings {
					if k != "url" && k != "mode" && !strings.HasSuffix(k, "_ns") { // the mode has its own warning
						keys[k] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// distinct lists a fact's values over a side's runs, each once.
func distinct(sd *sideData, of func(*runData) string) string {
	set := map[string]bool{}
	for _, rd := range sd.runs {
		if v := of(rd); v != "" {
			set[v] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), " / ")
}

func meanWall(sd *sideData) float64 {
	if len(sd.runs) == 0 {
		return 0
	}
	return float64(sd.wall()) / float64(len(sd.runs))
}

// meanOver is the mean of a fact over the runs that know it: a NaN is unknown.
// It is NaN where none does, and NaN compares with nothing.
func meanOver(sd *sideData, of func(*runData) float64) float64 {
	var sum float64
	n := 0
	for _, rd := range sd.runs {
		if v := of(rd); !math.IsNaN(v) && !math.IsInf(v, 0) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

func costOf(rd *runData) float64 {
	if rd.Manifest == nil || rd.Manifest.Overhead == nil {
		return math.NaN()
	}
	return rd.Manifest.Overhead.Share
}

func measuredClock(rd *runData) float64 {
	if rd.Manifest == nil || rd.Manifest.Host == nil || rd.Manifest.Host.Before == nil || rd.Manifest.Host.Before.ClockIndex == nil {
		return math.NaN()
	}
	return *rd.Manifest.Host.Before.ClockIndex
}

func stealOf(rd *runData) float64 {
	if rd.Manifest == nil {
		return math.NaN()
	}
	return known(rd.Manifest.StealShare())
}

func throttlesOf(rd *runData) float64 {
	if rd.Manifest == nil {
		return math.NaN()
	}
	if n := throttles(rd.Manifest); n != nil {
		return float64(*n)
	}
	return math.NaN()
}

// known is a figure, NaN for none.
func known(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// orNil is the reverse.
func orNil(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// lossShare is what the analyzed profile's collector lost beside what it saw.
func (x *comparison) lossShare(side int) float64 {
	sd := x.sides[side]
	var lost int64
	for _, rd := range sd.runs {
		if col := rd.collector(x.profile); col != nil {
			for _, name := range col.Lost {
				lost = add(lost, col.Counters[name])
			}
		}
	}
	if lost <= 0 {
		return 0
	}
	return float64(lost) / float64(lost+x.reports[side].Totals.Contentions)
}
