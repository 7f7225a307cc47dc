package gowait

import (
	"debug/elf"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"

	"contend/bpf"
	"contend/internal/collect/golayout"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

// The probes see a wait when it begins or ends. One that covers the whole window,
// on a lock that hangs, does neither: it is found in the runtime's table of
// semaphores, read from the target's memory at both edges of the window.

// semtable is runtime.semtable, an array of roots of treaps of waiters
// (src/runtime/sema.go).
type semtable struct {
	memory
	addr uint64
}

// standing is a goroutine that waits, and the semaphore it waits on.
type standing struct {
	g, sema uint64
}

// findSemtable finds the table by the code of semacquire1: it is the one variable
// without an initial value whose address is loaded there.
func findSemtable(p *target.Process, b *symbolize.Binary, layout *golayout.Layout) (*semtable, error) {
	f, err := elf.Open(p.Exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	acquire, err := b.Func(funcAcquire)
	if err != nil {
		return nil, err
	}
	code, err := b.Code(acquire)
	if err != nil {
		return nil, err
	}
	var found uint64
	for _, addr := range loadedAddresses(code, acquire.Entry) {
		if !zeroFilled(f, addr) || addr == found {
			continue
		}
		if found != 0 {
			return nil, fmt.Errorf("%s refers to variables at %#x and %#x", funcAcquire, found, addr)
		}
		found = addr
	}
	if found == 0 {
		return nil, fmt.Errorf("%s refers to no variable", funcAcquire)
	}
	return &semtable{memory{layout, p.ReadMemory}, found + p.Bias}, nil
}

// loadedAddresses are the targets of all LEA offset(RIP) in a function's code.
func loadedAddresses(code []byte, entry uint64) []uint64 {
	var addrs []uint64
	for off := 0; off < len(code); {
		inst, err := x86asm.Decode(code[off:], 64)
		if err != nil {
			break // padding behind the function
		}
		off += inst.Len
		if m, ok := inst.Args[1].(x86asm.Mem); ok && inst.Op == x86asm.LEA && m.Base == x86asm.RIP {
			addrs = append(addrs, entry+uint64(off)+uint64(m.Disp))
		}
	}
	return addrs
}

// zeroFilled reports an address of a variable without an initial value: it has
// memory, but nothing in the file.
func zeroFilled(f *elf.File, addr uint64) bool {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr+p.Filesz && addr < p.Vaddr+p.Memsz {
			return true
		}
	}
	return false
}

// maxStanding bounds the goroutines read from the table, some 30 ms of reading.
const maxStanding = 1 << 15

// waiters reads who waits for what. The target runs meanwhile and changes the
// table: the result may lack waiters, and is not to be believed without a second
// look.
func (t *semtable) waiters() (map[standing]bool, error) {
	if t == nil {
		return nil, nil
	}
	table := make([]byte, semRoots*semRootSize)
	if err := t.read(t.addr, table); err != nil {
		return nil, err
	}
	found := make(map[standing]bool)
	seen := make(map[uint64]bool)
	type node struct {
		sudog uint64
		root  int
	}
	var queue []node // to visit
	push := func(s uint64, root int) {
		if s != 0 && !seen[s] && len(seen) < maxStanding {
			seen[s] = true
			queue = append(queue, node{s, root})
		}
	}
	for i := range semRoots {
		push(word(table, i*semRootSize+int(t.layout.RootTreap)), i)
	}
	sudog := make([]byte, t.layout.SudogSize)
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if err := t.read(at.sudog, sudog); err != nil {
			if errors.Is(err, target.ErrExited) {
				return nil, err
			}
			continue // the pointer was old
		}
		w := standing{g: word(sudog, 0), sema: word(sudog, int(t.layout.SudogElem))}
		if !t.waits(w, at.sudog) || rootOf(w.sema) != at.root {
			continue // it was taken out meanwhile
		}
		found[w] = true
		push(word(sudog, int(t.layout.SudogNext)), at.root)
		push(word(sudog, int(t.layout.SudogPrev)), at.root)
		push(word(sudog, int(t.layout.SudogWaitlink)), at.root)
	}
	return found, nil
}

// waits reports whether the goroutine of a sudog waits by it still.
func (t *semtable) waits(w standing, sudog uint64) bool {
	if w.sema == 0 { // as dequeue leaves it
		return false
	}
	if t.layout.SemaWaiting {
		return t.word(w.g+uint64(t.layout.Waiting)) == sudog
	}
	return t.word(w.g+uint64(t.layout.Atomicstatus))&0xffffffff&^statusScanning == statusWaiting
}

// rootOf is the number of a semaphore's root, as semTable.rootFor has it.
func rootOf(sema uint64) int { return int(sema >> 3 % semRoots) }

// root is the address of a semaphore's root.
func (t *semtable) root(sema uint64) uint64 {
	return t.addr + uint64(rootOf(sema))*semRootSize
}

// readStanding adds to a snapshot the waits that were there at both edges and of
// whose goroutine no wait was seen in the window: they cover it. A goroutine that
// queued after the window is not among those of the start, or was seen.
func (s *snapshot) readStanding(t *semtable, atStart map[standing]bool) error {
	if t == nil || s.counts[bpf.GowaitCounterC_LOST_STARTS] > 0 {
		return nil // an unseen goroutine may have been lost
	}
	for sema, l := range s.locks {
		if want := t.root(sema); l.Root != want {
			return fmt.Errorf("the target's semaphores are at %#x, not at %#x", l.Root, want)
		}
	}
	atStop, err := t.waiters()
	if err != nil {
		return err
	}
	for w := range atStart {
		if g, seen := s.goroutines[w.g]; !atStop[w] || seen && (g.Queued != 0 || g.Key != bpf.GowaitWaitKey{}) { // else it only met a taken mutex
			continue
		}
		s.standing = append(s.standing, w)
		s.stacks[w.g] = t.stack(w.g) // as good an id as a hash
		s.since[w.g] = t.since(w.g)
		if l, ok := s.locks[w.sema]; !ok || l.Root == 0 {
			l.Changed = uint64(s.part) // nobody touched it
			l.Waiters++
			s.locks[w.sema] = l
		}
	}
	return nil
}
