package offcpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"contend/bpf"
)

// seed takes note of the threads that are off the CPU at the attach. Their
// registers come from the kernel and their stacks from the process's memory;
// a stack counts only for a thread that slept on while it was read.
func (c *Collector) seed() error {
	if err := c.objs.Seeding.Set(uint32(1)); err != nil {
		return fmt.Errorf("offcpu: %w", err)
	}
	before, err := c.readThreads()
	if err == nil {
		err = c.objs.Seeding.Set(uint32(0))
	}
	if err != nil {
		return fmt.Errorf("offcpu: listing the threads: %w", err)
	}
	stacks := make(map[uint32]bpf.OffcpuStack)
	for _, w := range before {
		if isSeeded(w) {
			stacks[w.Tid] = c.sleepingStack(w)
		}
	}
	after, err := c.readThreads()
	if err != nil {
		return fmt.Errorf("offcpu: listing the threads: %w", err)
	}
	c.seeded, c.unread = len(stacks), len(stacks)
	was := make(map[uint32]bpf.OffcpuOpenWait, len(before))
	for _, w := range before {
		was[w.Tid] = w
	}
	for _, w := range after {
		s, ok := stacks[w.Tid]
		if !ok || !isSeeded(w) || was[w.Tid] != w || s.N == 0 {
			continue
		}
		if c.objs.Stacks.Put(w.Key.User, s) == nil { // else the map is full
			c.unread--
		}
	}
	return nil
}

func isSeeded(w bpf.OffcpuOpenWait) bool {
	return w.Off != 0 && w.Key.Flags&uint8(bpf.OffcpuOffFlagsOFF_SEEDED) != 0
}

func isSyscall(w bpf.OffcpuOpenWait) bool {
	return w.Key.Flags&uint8(bpf.OffcpuOffFlagsOFF_SYSCALL) != 0
}

// sleepingStack walks the stack of a thread at rest as the programs do for
// running ones. The result has no addresses where not even one could be had.
func (c *Collector) sleepingStack(w bpf.OffcpuOpenWait) (s bpf.OffcpuStack) {
	pc, bp := w.Ip, w.Bp
	g, end := c.lockedGoroutine(w)
	if g != 0 {
		pc, bp = c.word(g+uint64(c.layout.G_schedPc)), c.word(g+uint64(c.layout.G_schedBp))
	} else if ret := c.word(w.Sp); frameless(c.binary, pc-c.process.Bias, isSyscall(w)) &&
		c.binary.Frames(ret-c.process.Bias-1) != nil {
		s.Pcs[0], s.N = pc, 1
		pc = ret
	}
	for pc != 0 && int(s.N) < len(s.Pcs) {
		s.Pcs[s.N] = pc
		s.N++
		if bp == 0 || bp%8 != 0 || end != 0 && (bp < w.Sp || bp >= end) {
			break
		}
		pc, bp = c.word(bp+8), c.word(bp)
	}
	return s
}

// lockedGoroutine is locked_goroutine of offcpu.bpf.c, for a thread at rest.
func (c *Collector) lockedGoroutine(w bpf.OffcpuOpenWait) (g, end uint64) {
	if !c.lockedg {
		return 0, 0
	}
	l := c.layout
	g0 := c.word(w.Fsbase + uint64(l.TlsG))
	m := c.word(g0 + uint64(l.G_m))
	if m == 0 || c.word(m+uint64(l.M_g0)) != g0 || c.word(m+uint64(l.M_curg)) != 0 {
		return 0, 0
	}
	locked := c.word(m + uint64(l.M_lockedg))
	if locked == 0 {
		return 0, c.word(g0 + uint64(l.G_stackHi))
	}
	if c.word(locked+uint64(l.G_lockedm)) != m {
		return 0, 0
	}
	return locked, 0
}

// word reads 8 bytes of the process, 0 where there are none.
func (c *Collector) word(addr uint64) uint64 {
	var b [8]byte
	if addr < 4096 || c.process.ReadMemory(addr, b[:]) != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// readThreads runs the iterator over the target's threads. With a window just
// closed it marks those off the CPU as open, once.
func (c *Collector) readThreads() (out []bpf.OffcpuOpenWait, err error) {
	r, err := c.threads.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return parseThreads(r)
}

func parseThreads(r io.Reader) ([]bpf.OffcpuOpenWait, error) {
	var out []bpf.OffcpuOpenWait
	for {
		var w bpf.OffcpuOpenWait
		switch err := binary.Read(r, binary.LittleEndian, &w); err {
		case nil:
			out = append(out, w)
		case io.EOF:
			return out, nil
		default:
			return nil, err
		}
	}
}
