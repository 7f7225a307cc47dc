package gowait

import (
	"debug/elf"
	"errors"
	"fmt"

	"contend/internal/collect/golayout"
	"contend/internal/collect/target"
)

// verify holds what the layout says to what is in the target's memory, and finds
// there what is read again later: the list of goroutines and the wait reasons. A
// target whose memory does not agree is refused. One whose memory may not be read
// (ptrace_scope of Yama) is not: the probes, which need no such leave, then go by a
// layout that only its release vouches for.
func (c *Collector) verify(layout *golayout.Layout) error {
	err := c.readRuntime(layout)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, target.ErrExited), !c.process.Alive():
		return target.ErrExited
	case errors.Is(err, target.ErrPermission):
		c.unverified = err
		return nil
	}
	return &TargetError{err.Error()}
}

func (c *Collector) readRuntime(layout *golayout.Layout) error {
	f, err := elf.Open(c.process.Exe)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := findReasons(c.process, f)
	if err != nil {
		return err
	}
	list, err := findAllgs(c.process, f, layout)
	if err != nil {
		return err
	}
	if err := list.check(r); err != nil {
		return err
	}
	c.reasons, c.goroutines = r, list
	return nil
}

// statusRunning and statusSyscall are those of a goroutine that has a thread.
const (
	statusRunning = 2
	statusSyscall = 3
)

// checkThreads holds the fields that lead from a goroutine to its thread and back.
// The target runs meanwhile, so that single ones may disagree; not all do.
func (a *allgs) checkThreads(list []uint64) error {
	const enough = 3 // to tell
	met, agree := 0, 0
	buf := make([]byte, gSize(a.layout))
	for _, g := range list {
		if err := a.read(g, buf); err != nil {
			return err
		}
		m := word(buf, int(a.layout.GM))
		if s := a.status(buf); m == 0 || s != statusRunning && s != statusSyscall {
			continue
		}
		met++
		if a.word(m+uint64(a.layout.Curg)) == g {
			agree++
		}
	}
	if met >= enough && agree == 0 {
		return fmt.Errorf("the runtime's fields are not where this version of Go has them: none of %d threads runs the goroutine that says it runs there", met)
	}
	return nil
}
