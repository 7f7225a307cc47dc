package gowait

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"contend/internal/collect/golayout"
	"contend/internal/collect/target"
)

// A park that began before the window meets no probe until it ends. It is found
// in runtime.allgs, the list of all goroutines, in the target's memory: at the
// window's start, to know who waits, and at its end, to know who still does.

// allgs is the place of runtime.allgs, a []*g, or of a copy of it.
type allgs struct {
	memory
	addr uint64
}

// parkedG is a goroutine that waits.
type parkedG struct {
	g, goid uint64
	reason  uint8
}

// Status of a g (src/runtime/runtime2.go); the collector marks those whose stack it
// scans.
const (
	statusWaiting  = 4
	statusScanning = 0x1000
	statusLast     = 11 // _Gdeadextra
)

// Bounds of what is searched and read.
const (
	maxVariables  = 256 << 20
	chunk         = 1 << 20
	maxGoroutines = 1 << 17 // some 150 ms of reading
	sliceHeader   = 24
)

// findAllgs searches the program's variables for a slice of pointers to g. The
// list has copies (one for readers without its lock, one for the collector): the
// longest is it, or as good.
func findAllgs(p *target.Process, f *elf.File, layout *golayout.Layout) (*allgs, error) {
	a := &allgs{memory: memory{layout, p.ReadMemory}}
	var most uint64
	buf := make([]byte, chunk+sliceHeader)
	for _, seg := range writable(f) {
		for off := uint64(0); off < min(seg.Memsz, maxVariables); off += chunk {
			addr := seg.Vaddr + p.Bias + off
			part := buf[:min(chunk+sliceHeader, seg.Memsz-off)]
			if err := p.ReadMemory(addr, part); err != nil {
				if errors.Is(err, target.ErrExited) || errors.Is(err, target.ErrPermission) {
					return nil, err
				}
				continue
			}
			for i := 0; i+sliceHeader <= len(part); i += 8 {
				ptr, n, room := word(part, i), word(part, i+8), word(part, i+16)
				if n > most && n <= room && a.plausible(ptr, n) {
					a.addr, most = addr+uint64(i), n
				}
			}
		}
	}
	if a.addr == 0 {
		return nil, errors.New("the target's memory has no list of goroutines: its runtime is not the one that its version tells")
	}
	return a, nil
}

// plausible reports whether n pointers at ptr begin and end with one to a g: a
// struct that has its own address in g.sched.g.
func (a *allgs) plausible(ptr, n uint64) bool {
	if !pointer(ptr) || n == 0 || n > 1<<26 {
		return false
	}
	for _, i := range []uint64{0, n - 1} {
		g := a.word(ptr + 8*i)
		if !pointer(g) || a.word(g+uint64(a.layout.SchedG)) != g {
			return false
		}
	}
	return true
}

// pointer reports whether v can be the address of something aligned in user space.
func pointer(v uint64) bool { return v&7 == 0 && v >= 1<<16 && v < 1<<47 }

// list reads the pointers to all g.
func (a *allgs) list() ([]uint64, error) {
	var header [sliceHeader]byte
	if err := a.read(a.addr, header[:]); err != nil {
		return nil, err
	}
	ptr, n := word(header[:], 0), min(word(header[:], 8), maxGoroutines)
	if !a.plausible(ptr, n) {
		return nil, errors.New("the list of goroutines has moved")
	}
	buf := make([]byte, 8*n)
	if err := a.read(ptr, buf); err != nil {
		return nil, err
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = word(buf, 8*i)
	}
	return list, nil
}

// parked reads who waits. The target runs meanwhile: who is in it waited at some
// moment of the reading.
func (a *allgs) parked() (map[parkedG]bool, error) {
	list, err := a.list()
	if err != nil {
		return nil, err
	}
	found := make(map[parkedG]bool)
	buf := make([]byte, gSize(a.layout))
	for _, g := range list {
		if err := a.read(g, buf); err != nil {
			if errors.Is(err, target.ErrExited) {
				return nil, err
			}
			continue
		}
		if a.status(buf) == statusWaiting {
			found[parkedG{g, word(buf, int(a.layout.Goid)), buf[a.layout.Waitreason]}] = true
		}
	}
	return found, nil
}

func (a *allgs) status(g []byte) uint64 {
	return word(g, int(a.layout.Atomicstatus)) & 0xffffffff &^ statusScanning
}

// check holds what the layout says to what is there: of every goroutine its
// address and its status, of those that wait the reason, the saved stack pointer
// and an id of their own.
func (a *allgs) check(r reasons) error {
	list, err := a.list()
	if err != nil {
		return err
	}
	ids := make(map[uint64]bool)
	known := false // one of the first
	buf := make([]byte, gSize(a.layout))
	for _, g := range list[:min(len(list), 1000)] {
		// It may be changing: a second look decides.
		var wrong string
		for range 3 {
			if err := a.read(g, buf); err != nil {
				return err
			}
			if wrong = a.wrong(g, buf, r, ids); wrong == "" {
				break
			}
		}
		if wrong != "" {
			return fmt.Errorf("the runtime's fields are not where this version of Go has them: goroutine at %#x: %s", g, wrong)
		}
		if a.status(buf) == statusWaiting {
			ids[word(buf, int(a.layout.Goid))] = true
		}
		if goid := word(buf, int(a.layout.Goid)); goid > 0 && goid <= lastFirst {
			known = true
		}
	}
	if !known {
		return errors.New("the runtime's fields are not where this version of Go has them: no goroutine has the id of one of the first")
	}
	return a.checkThreads(list[:min(len(list), 1000)])
}

// The runtime starts goroutines of its own after that of main.main, which has the id 1;
// they never end (src/runtime/proc.go, main).
const lastFirst = 8

func (a *allgs) wrong(g uint64, buf []byte, r reasons, ids map[uint64]bool) string {
	l := a.layout
	status := a.status(buf)
	switch {
	case word(buf, int(l.SchedG)) != g:
		return "its saved state is another's"
	case status > statusLast:
		return fmt.Sprintf("status %d", status)
	case status != statusWaiting:
		return ""
	}
	reason, goid := int(buf[l.Waitreason]), word(buf, int(l.Goid))
	lo, hi, sp := word(buf, 0), word(buf, int(l.StackHi)), word(buf, int(l.SchedSP))
	switch {
	case reason == 0 || reason >= len(r):
		return fmt.Sprintf("wait reason %d of %d", reason, len(r))
	case sp < lo || sp >= hi:
		return fmt.Sprintf("stack pointer %#x outside its stack, %#x to %#x", sp, lo, hi)
	case goid == 0 || goid > 1<<48 || ids[goid]:
		return fmt.Sprintf("id %d", goid)
	}
	return ""
}

// gSize is how much of a g is read.
func gSize(l *golayout.Layout) int {
	return int(slices.Max([]uint32{l.Atomicstatus, l.Goid, l.Waitsince, l.Waitreason, l.GM, l.SchedG, l.SchedSP, l.StackHi})) + 8
}
