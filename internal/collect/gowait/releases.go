package gowait

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"contend/bpf"
	"contend/internal/collect/symbolize"
)

// releases are the probes that see who gives a lock up. They share one program,
// which tells them apart by their cookie.
type releases struct {
	probeSet
	contended uint64 // the probe of Locks that found the mutex taken; 0 if there is none
	missing   error  // why holders cannot be captured, or nil
}

// probeSet is places to probe with one program.
type probeSet struct{ offsets, cookies []uint64 }

func (s *probeSet) add(offset, cookie uint64) {
	s.offsets, s.cookies = append(s.offsets, offset), append(s.cookies, cookie)
}

// releaseFuncs are what the probes of a burst are on. A program that has no use
// for one does not link it.
var releaseFuncs = []struct {
	name string
	how  bpf.GowaitRelease
}{
	{"internal/sync.(*Mutex).unlockSlow", bpf.GowaitReleaseRELEASE_MUTEX},
	{"sync.(*Mutex).unlockSlow", bpf.GowaitReleaseRELEASE_MUTEX}, // Go ≤ 1.23
	{"sync.(*RWMutex).rUnlockSlow", bpf.GowaitReleaseRELEASE_READER},
	{"sync.(*RWMutex).Unlock", bpf.GowaitReleaseRELEASE_WRITER},
	{"internal/poll.runtime_Semrelease", bpf.GowaitReleaseRELEASE_FD},
	// These release nothing: they tell how many Locks found the mutex taken.
	{"internal/sync.(*Mutex).lockSlow", bpf.GowaitReleaseRELEASE_NONE},
	{"sync.(*Mutex).lockSlow", bpf.GowaitReleaseRELEASE_NONE}, // Go ≤ 1.23
}

func releaseNames() []string {
	var names []string
	for _, f := range releaseFuncs {
		names = append(names, f.name)
	}
	return names
}

// findReleases finds the probes' places. Where a copy of a release is inlined
// elsewhere, its holders would be blamed on the next release that is seen: then
// none is captured.
func findReleases(b *symbolize.Binary, inlined map[string][]string) releases {
	var r releases
	for _, f := range releaseFuncs {
		if in := inlined[f.name]; len(in) > 0 && f.how != bpf.GowaitReleaseRELEASE_NONE {
			r.missing = errors.Join(r.missing, fmt.Errorf("%s is inlined into %s, where it cannot be probed; build without that profile (-pgo=off)", f.name, strings.Join(in, ", ")))
			continue
		}
		point, err := b.ProbePoint(f.name)
		switch {
		case errors.Is(err, symbolize.ErrNoFunc):
			continue
		case err != nil && f.how != bpf.GowaitReleaseRELEASE_NONE:
			r.missing = errors.Join(r.missing, err)
		case err == nil && f.how == bpf.GowaitReleaseRELEASE_NONE:
			r.contended = point.Offset
		case err == nil:
			r.add(point.Offset, uint64(f.how))
		}
	}
	if len(r.offsets) == 0 && r.missing == nil {
		r.missing = errors.New("the program releases no lock")
	}
	return r
}

// attachReleases puts the probes of releases, of absences and of contended Locks in
// place, within some 0.2 ms; the last are the first link. Bursts attach and detach
// because a probe that stays costs the target a trap at every release, about twenty
// times as many as there are waits, even if its program does nothing.
func (c *Collector) attachReleases() (links []link.Link, err error) {
	exe, err := link.OpenExecutable(c.process.Exe)
	if err != nil {
		return nil, fmt.Errorf("opening the target's executable: %w", err)
	}
	attach := func(what string, prog *ebpf.Program, set probeSet) {
		if err != nil || len(set.offsets) == 0 {
			return
		}
		var more []link.Link
		if more, err = c.attachSet(exe, prog, set); err != nil {
			err = errors.Join(explain("probing "+what, err), closeAll(links))
		}
		links = append(links, more...)
	}
	r := c.probes.releases
	if r.contended != 0 {
		attach("contended locks", c.objects.GowaitRelease, probeSet{[]uint64{r.contended}, []uint64{uint64(bpf.GowaitReleaseRELEASE_NONE)}})
	}
	if c.absences.missing == nil { // before releases: a hold whose release is seen has its absences seen
		attach("what holders wait for", c.objects.GowaitAbsence, c.absences.probeSet)
	}
	attach("the releases of locks", c.objects.GowaitRelease, r.probeSet)
	return links, err
}

func (c *Collector) attachSet(exe *link.Executable, prog *ebpf.Program, set probeSet) ([]link.Link, error) {
	if c.attach == attachUprobeMulti {
		l, err := exe.UprobeMulti(nil, prog, &link.UprobeMultiOptions{
			Addresses: set.offsets, Cookies: set.cookies, PID: uint32(c.process.PID),
		})
		if err != nil {
			return nil, err
		}
		return []link.Link{l}, nil
	}
	var links []link.Link
	for i, offset := range set.offsets {
		l, err := exe.Uprobe("", prog, &link.UprobeOptions{Address: offset, Cookie: set.cookies[i], PID: c.process.PID})
		if err != nil {
			return nil, errors.Join(err, closeAll(links))
		}
		links = append(links, l)
	}
	return links, nil
}
