package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"contend/internal/recording"
)

// diffWarnings are what a reader of a comparison must know: why it carries no
// verdict, and where unlike things are compared.
func (x *comparison) diffWarnings() []string {
	w := []string{}
	add := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
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
	x.compareFacts(add, b, c)
	if x.reports[0].Mode != x.reports[1].Mode {
		add("the modes differ: %s and %s see different waits", x.reports[0].Mode, x.reports[1].Mode)
	}
	if x.profile == recording.Mutex && strings.Contains(mutexMeaning(append(b.goVersions(), c.goVersions()...)), "both sides") {
		add("the mutex profile changed its meaning in Go 1.22, from the delay of one waiter to that of all: these profiles do not compare")
	}
	for i, r := range x.reports {
		if n := lostTotal(r.Lost); n > 0 {
			add("the %s lost %d events or stacks: its totals are lower bounds", sideName(i), n)
		}
		for _, s := range x.sides[i].manifestWarnings() {
			add("%s: %s", sideName(i), s)
		}
	}
	return w
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

// compareFacts warns of every fact on which the sides differ.
func (x *comparison) compareFacts(add func(string, ...any), b, c *sideData) {
	if p, q := meanWall(b), meanWall(c); p > 0 && q > 0 && math.Abs(q-p)/p > 0.05 {
		add("the windows differ in length: %s and %s", time.Duration(p).Round(time.Millisecond), time.Duration(q).Round(time.Millisecond))
	}
	facts := []struct {
		what string
		of   func(*runData) string
	}{
		{"hosts", hostOf},
		{"Go versions", func(rd *runData) string { return target(rd).Go }},
		{"targets", func(rd *runData) string { return target(rd).Module }},
		{"clock settings", clockOf},
	}
	for _, f := range facts {
		p, q := distinct(b, f.of), distinct(c, f.of)
		if p != "" && q != "" && p != q {
			add("the %s differ: %s and %s", f.what, p, q)
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
			add("the settings of %s differ: %s is %s and %s", x.profile, key, p, q)
		}
	}
	p, q := costOf(b), costOf(c)
	if p > 0 && q > 0 && math.Abs(p-q) > 0.01 {
		add("recording cost %.1f %% and %.1f %% of the targets' time", 100*p, 100*q)
	}
}

func target(rd *runData) recording.Target {
	if rd.Manifest == nil {
		return recording.Target{}
	}
	return rd.Manifest.Target
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

func costOf(sd *sideData) float64 {
	var sum float64
	n := 0
	for _, rd := range sd.runs {
		if rd.Manifest != nil && rd.Manifest.Overhead != nil && !math.IsNaN(rd.Manifest.Overhead.Share) && !math.IsInf(rd.Manifest.Overhead.Share, 0) {
			sum += rd.Manifest.Overhead.Share
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
