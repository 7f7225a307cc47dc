package gowait

import (
	"errors"
	"strings"
	"testing"

	"contend/internal/collect/golayout"
)

// TestVerifyRefuses: a layout that the target's memory contradicts is refused, with what
// does not fit.
func TestVerifyRefuses(t *testing.T) {
	r := startTarget(t)
	r.do(t, "park 4 1 1ms")
	r.do(t, "load 4 1 1ms")
	good, err := layoutFor(r.binary, r.Exe)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(l golayout.Layout) error {
		return (&Collector{process: r.Process, binary: r.binary}).verify(&l)
	}
	if err := verify(*good); err != nil {
		t.Fatalf("the true layout is refused: %v", err)
	}
	for name, change := range map[string]func(*golayout.Layout){
		"goid":         func(l *golayout.Layout) { l.Goid = l.StackHi },
		"sched.g":      func(l *golayout.Layout) { l.SchedG += 8 },
		"sched.sp":     func(l *golayout.Layout) { l.SchedSP = l.Goid },
		"atomicstatus": func(l *golayout.Layout) { l.Atomicstatus = l.SchedSP },
		"waitreason":   func(l *golayout.Layout) { l.Waitreason = l.SchedG + 7 },
		"another version": func(l *golayout.Layout) {
			other, err := golayout.For("go1.24.0", r.Exe)
			if err != nil {
				t.Fatal(err)
			}
			*l = *other
		},
	} {
		l := *good
		change(&l)
		err := verify(l)
		var refused *TargetError
		if !errors.As(err, &refused) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s moved: %v", name, err)
		}
	}
	if l := r.do(t, "unload"); l.Errors != 0 {
		t.Errorf("%+v", l)
	}
	r.do(t, "release")
}

// TestCheckThreads: threads that run no goroutine which says it runs there.
func TestCheckThreads(t *testing.T) {
	layout := &golayout.Layout{GM: 48, Atomicstatus: 56, SchedG: 64, Curg: 8}
	const first, size, m = 0x10000, 0x100, 0x90000
	goroutines := func(agree bool) *allgs {
		return &allgs{memory: memory{layout, func(addr uint64, buf []byte) error {
			clear(buf)
			put := func(off int, v uint64) {
				for i := range 8 {
					if off+i < len(buf) {
						buf[off+i] = byte(v >> (8 * i))
					}
				}
			}
			if addr >= m { // m.curg
				if agree {
					put(0, first+(addr-m)/size*size)
				}
				return nil
			}
			put(48, m+(addr-first))
			put(56, statusRunning)
			return nil
		}}}
	}
	list := []uint64{first, first + size, first + 2*size}
	if err := goroutines(true).checkThreads(list); err != nil {
		t.Error(err)
	}
	if err := goroutines(false).checkThreads(list); err == nil {
		t.Error("no thread points back, and that is fine")
	}
	if err := goroutines(false).checkThreads(list[:2]); err != nil {
		t.Errorf("two are too few to tell: %v", err)
	}
}
