package recording

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Merged is a recording in memory, made of several.
type Merged struct {
	Manifest Manifest
	Profiles map[string]*profile.Profile
}

// processBits is where the number of a process goes in a merged lock address:
// above the 47 bits of an address in user space, so that the locks of two
// processes never meet.
const processBits = 48

// maxProcesses is how many fit above them in a positive label.
const maxProcesses = 1 << (63 - processBits)

// Merge sums recordings of one process, or of several processes of one build
// recorded in the same way, into one. Counters, operations and window lengths
// add up; a collector's window becomes as long as all windows together. What
// would make the sum a lie is refused: different builds, hosts, profiles or
// settings, and windows of one process that overlap.
func Merge(all []*Recording) (*Merged, error) {
	if len(all) < 2 {
		return nil, errors.New("merging takes at least two recordings")
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *Recording) int { return a.Manifest.Started.Compare(b.Manifest.Started) })
	for _, r := range all[1:] {
		if why, err := conflict(all[0], r); err != nil {
			return nil, err
		} else if why != "" {
			return nil, fmt.Errorf("cannot merge %s and %s: %s", all[0].Path, r.Path, why)
		}
	}
	processes, err := countProcesses(all)
	if err != nil {
		return nil, err
	}
	m := &Merged{Manifest: mergeManifests(all, processes), Profiles: map[string]*profile.Profile{}}
	names, err := all[0].Profiles()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		parts := make([]*profile.Profile, len(all))
		var bursts int64 // of the recordings before
		for i, r := range all {
			p, err := r.Profile(name)
			if err != nil {
				return nil, err
			}
			last := bursts
			for _, s := range p.Sample {
				for _, label := range []string{LabelLockAddr, LabelOnAddr} {
					for k, addr := range s.NumLabel[label] {
						s.NumLabel[label][k] = int64(apart(uint64(addr), processes[i]))
					}
				}
				for k, n := range s.NumLabel[LabelBurst] { // numbered from 1 in each recording
					s.NumLabel[LabelBurst][k] = n + bursts
					last = max(last, n+bursts)
				}
			}
			bursts = last
			parts[i] = p
		}
		if m.Profiles[name], err = MergeProfiles(parts...); err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
	}
	return m, nil
}

// apart gives the locks of each process addresses of their own. 0 is unknown
// and stays so.
func apart(addr uint64, process int) uint64 {
	if addr == 0 {
		return 0
	}
	return addr | uint64(process)<<processBits
}

// conflict says why b cannot be added to a; "" if it can.
func conflict(a, b *Recording) (string, error) {
	x, y := &a.Manifest, &b.Manifest
	for _, f := range []struct{ what, a, b string }{
		{"targets", x.Target.Name, y.Target.Name},
		{"builds", x.Target.BuildID, y.Target.BuildID},
		{"modules", x.Target.Module, y.Target.Module},
		{"versions", x.Target.Version, y.Target.Version},
		{"Go versions", x.Target.Go, y.Target.Go},
		{"hosts", hostname(x), hostname(y)},
		{"counted operations", operationName(x), operationName(y)},
		{"collectors", strings.Join(collectorNames(x), ", "), strings.Join(collectorNames(y), ", ")},
	} {
		if f.a != f.b && !(f.what == "builds" && unpadded(f.a) == unpadded(f.b)) {
			return fmt.Sprintf("their %s differ: %s and %s", f.what, cmp.Or(f.a, "none"), cmp.Or(f.b, "none")), nil
		}
	}
	for i := range x.Collectors {
		p, q := byName(x.Collectors)[i], byName(y.Collectors)[i]
		for _, k := range slices.Sorted(maps.Keys(p.Settings)) {
			// The endpoint's address and measurements of the host are no choices.
			if k != "url" && !strings.HasSuffix(k, "_ns") && p.Settings[k] != q.Settings[k] {
				return fmt.Sprintf("the %s of %s differs: %s and %s", k, p.Name, p.Settings[k], cmp.Or(q.Settings[k], "unset")), nil
			}
		}
	}
	has, err := a.Profiles()
	if err != nil {
		return "", err
	}
	needs, err := b.Profiles()
	if err != nil {
		return "", err
	}
	if !slices.Equal(has, needs) {
		return fmt.Sprintf("their profiles differ: %s and %s", strings.Join(has, ", "), strings.Join(needs, ", ")), nil
	}
	return "", nil
}

// unpadded is a build ID without the zeros that some tools fill it up with.
func unpadded(id string) string { return strings.TrimRight(id, "0") }

func byName(all []Collector) []Collector {
	return slices.SortedFunc(slices.Values(all), func(a, b Collector) int { return cmp.Compare(a.Name, b.Name) })
}

func collectorNames(m *Manifest) []string {
	var names []string
	for _, c := range byName(m.Collectors) {
		names = append(names, c.Name)
	}
	return names
}

func hostname(m *Manifest) string {
	if m.Host == nil || m.Host.Before == nil {
		return ""
	}
	return m.Host.Before.Hostname
}

func operationName(m *Manifest) string {
	if m.Operations == nil {
		return ""
	}
	return m.Operations.Name
}

// countProcesses numbers each recording's process, in the order of time, and
// refuses windows of one process that overlap: their waits would count twice.
func countProcesses(all []*Recording) ([]int, error) {
	type process struct {
		boot  string
		pid   int
		start uint64
	}
	number := map[process]int{}
	last := map[process]*Recording{}
	out := make([]int, len(all))
	next := 0
	for i, r := range all {
		t := &r.Manifest.Target
		id := process{t.BootID, t.PID, t.StartTime}
		if t.PID == 0 || t.StartTime == 0 { // unknown: a process of its own
			out[i] = next
			next++
			continue
		}
		if before := last[id]; before != nil {
			if end := before.Manifest.StartMonoNS + before.Manifest.DurationNS; r.Manifest.StartMonoNS < end {
				return nil, fmt.Errorf("cannot merge %s and %s: they overlap by %.3f s, whose waits would count twice",
					before.Path, r.Path, float64(end-r.Manifest.StartMonoNS)/1e9)
			}
		} else {
			number[id] = next
			next++
		}
		last[id] = r
		out[i] = number[id]
	}
	if next > maxProcesses {
		return nil, fmt.Errorf("cannot merge %d processes into one recording: at most %d", next, maxProcesses)
	}
	return out, nil
}

func mergeManifests(all []*Recording, processes []int) Manifest {
	first, last := &all[0].Manifest, &all[len(all)-1].Manifest
	m := Manifest{Schema: Schema, Tool: first.Tool, Started: first.Started, StartMonoNS: first.StartMonoNS,
		Ended: EndedDuration, Target: first.Target, Labels: maps.Clone(first.Labels)}
	m.Target.CPUNS = 0
	if n := slices.Max(processes) + 1; n > 1 {
		m.Target.PID, m.Target.StartTime, m.Target.BootID = 0, 0, ""
		m.Warnings = append(m.Warnings, fmt.Sprintf("merged from %d processes: their locks count as instances of one", n))
	}
	results := 0
	for i, r := range all {
		x := &r.Manifest
		m.DurationNS += x.DurationNS
		m.Target.CPUNS += x.Target.CPUNS
		if x.Ended != EndedDuration {
			m.Ended = x.Ended
		}
		if x.Operations != nil {
			if m.Operations == nil {
				m.Operations = &Operations{Name: x.Operations.Name}
			}
			m.Operations.Count += x.Operations.Count
		}
		for k, v := range m.Labels {
			if x.Labels[k] != v {
				delete(m.Labels, k)
			}
		}
		m.addCollectors(x, processes[i])
		m.Warnings = appendNew(m.Warnings, x.Warnings...)
		if _, err := os.Stat(filepath.Join(r.Path, WorkloadFile)); err == nil {
			results++
		}
		m.Skipped = appendNew(m.Skipped, x.Skipped...)
	}
	for i := range m.Collectors {
		m.Collectors[i].Locks = sumLocks(m.Collectors[i].Locks)
	}
	if len(m.Labels) == 0 {
		m.Labels = nil
	}
	if results > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("the results of the workload (%s) of %d of %d recordings were left out in merging: percentiles do not add up", WorkloadFile, results, len(all)))
	}
	m.Overhead = mergeOverhead(all)
	if first.Host != nil && last.Host != nil && first.Host.Before != nil && last.Host.After != nil {
		m.Host = mergeHosts(all)
	}
	return m
}

func appendNew[T comparable](to []T, more ...T) []T {
	for _, v := range more {
		if !slices.Contains(to, v) {
			to = append(to, v)
		}
	}
	return to
}

// addCollectors adds each collector's window, counters and locks.
func (m *Manifest) addCollectors(x *Manifest, process int) {
	for _, c := range x.Collectors {
		i := slices.IndexFunc(m.Collectors, func(o Collector) bool { return o.Name == c.Name })
		if i < 0 {
			i = len(m.Collectors)
			m.Collectors = append(m.Collectors, Collector{Name: c.Name, Settings: maps.Clone(c.Settings),
				StartMonoNS: c.StartMonoNS, EndMonoNS: c.StartMonoNS, Counters: map[string]int64{}})
		}
		sum := &m.Collectors[i]
		sum.EndMonoNS += c.EndMonoNS - c.StartMonoNS
		for k, n := range c.Counters {
			sum.Counters[k] += n
		}
		sum.Lost = appendNew(sum.Lost, c.Lost...)
		sum.Parts = append(sum.Parts, c.Parts...)
		for _, l := range c.Locks {
			l.Addr = apart(l.Addr, process)
			sum.Locks = append(sum.Locks, l)
		}
	}
}

// sumLocks makes one entry of the entries of each lock, longest held up first.
func sumLocks(all []LockTiming) []LockTiming {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b LockTiming) int { return cmp.Compare(a.Addr, b.Addr) })
	out := all[:1]
	for _, l := range all[1:] {
		if last := &out[len(out)-1]; last.Addr == l.Addr {
			last.HeldUpNS += l.HeldUpNS
		} else {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b LockTiming) int { return cmp.Compare(b.HeldUpNS, a.HeldUpNS) })
	return out
}

// mergeOverhead sums the cost; shares weigh by the windows' lengths.
func mergeOverhead(all []*Recording) *Overhead {
	var sum Overhead
	var wall float64
	for _, r := range all {
		o := r.Manifest.Overhead
		if o == nil {
			return nil
		}
		d := float64(r.Manifest.DurationNS)
		sum.ProbeHits += o.ProbeHits
		sum.BPFRunNS += o.BPFRunNS
		sum.TrapNS += o.TrapNS
		sum.Share += o.Share * d
		wall += d
	}
	sum.Share /= wall
	return &sum
}

// mergeHosts is the host before the first and after the last window. What adds
// up over time is that of the windows alone, without the gaps between them.
func mergeHosts(all []*Recording) *HostWindow {
	before, after := *all[0].Manifest.Host.Before, *all[len(all)-1].Manifest.Host.After
	after.BusyOther, after.StealShare, after.Steal, after.Throttles = nil, nil, before.Steal, before.Throttles
	for _, r := range all {
		h := r.Manifest.Host
		if h == nil || h.Before == nil || h.After == nil {
			after.Steal, after.Throttles = nil, nil
			break
		}
		after.Steal = plus(after.Steal, h.Before.Steal, h.After.Steal)
		after.Throttles = plus(after.Throttles, h.Before.Throttles, h.After.Throttles)
	}
	return &HostWindow{Before: &before, After: &after}
}

// plus adds what a counter gained between two readings; nil is unknown.
func plus[T int64 | float64](sum, from, to *T) *T {
	if sum == nil || from == nil || to == nil {
		return nil
	}
	v := *sum + *to - *from
	return &v
}
