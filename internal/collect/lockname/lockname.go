// Package lockname names locks by what they are in the program: a global, or a
// struct's field, as in server.(*client).mu.
//
// A stack that waits for a lock shows the call that was given the lock's address.
// Its argument is followed back through the machine code to the variable or
// parameter it was made of, whose type has a field at that offset. Where it came
// with the call, the caller goes on: the stack says who that was.
package lockname

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"contend/internal/collect/symbolize"
)

// Namer names the locks of one binary. It is not safe for concurrent use.
type Namer struct {
	binary *symbolize.Binary
	file   *elf.File
	debug  *debugInfo
	err    error // why there is no debug information

	codes   map[uint64]codeOrError
	traces  map[traceKey]*tracer
	vars    map[uint64][]variable
	symbols *symbolize.Symbols // of data; read when first asked
	sources *sources           // nil if nothing is read
	types   *runtimeTypes      // nil with debug information, or if they cannot be used
}

type codeOrError struct {
	code *code
	err  error
}

// maxCallers is how many frames above the one that locks are followed: helpers
// that lock for their callers nest no deeper.
const maxCallers = 6

// New makes a namer. The stacks and the ELF addresses are those that Site and
// Global will be asked for: what is read of the debug information is what they
// need. b must stay open until after Close.
func New(b *symbolize.Binary, stacks [][]uint64, locks []uint64) *Namer {
	n := &Namer{binary: b, codes: make(map[uint64]codeOrError), traces: make(map[traceKey]*tracer), vars: make(map[uint64][]variable)}
	if len(stacks) == 0 {
		return n // nothing is read
	}
	if n.file, n.err = b.ELF(); n.err != nil {
		return n
	}
	n.sources = newSources(b.ModTime())
	functions, packages := n.reach(stacks)
	for _, addr := range locks {
		if v, ok := n.globalAt(addr); ok {
			packages[packageOf(v.name)] = true
		}
	}
	if n.debug, n.err = readDebugInfo(n.file, packages); n.err == nil {
		n.err = n.readVariables(functions)
	}
	if n.err != nil {
		n.err = errors.Join(n.err, n.Close())
		n.types = readRuntimeTypes(b)
	}
	return n
}

func (n *Namer) readVariables(functions map[uint64]bool) error {
	if err := n.debug.loadUnitsOf(functions); err != nil {
		return err
	}
	var all []*declared
	byEntry := make(map[uint64]*declared)
	for entry := range functions {
		c, err := n.debug.declare(entry)
		if err != nil {
			return err
		}
		byEntry[entry] = c
		all = append(all, c)
	}
	if err := n.debug.readLists(all); err != nil {
		return err
	}
	for entry, c := range byEntry {
		n.vars[entry] = c.vars
	}
	return nil
}

// Close gives up the memory of the debug information.
func (n *Namer) Close() error {
	if n.debug == nil {
		return nil
	}
	err := n.debug.close()
	n.debug = nil
	return err
}

// Retakes reports a site where a Cond takes its lock again. What lock that is only
// other sites can tell.
func Retakes(err error) bool { return errors.Is(err, errCond) }

// Source says in a word or a line what the names are from.
func (n *Namer) Source() string {
	switch {
	case n.types != nil:
		return "runtime types (" + n.err.Error() + ")"
	case n.err != nil:
		return "none (" + n.err.Error() + ")"
	case n.debug == nil:
		return "none (nobody waited)"
	}
	return "DWARF"
}

// Err is why no debug information is used: the binary has none, or it does not
// hold together.
func (n *Namer) Err() error { return n.err }

// reach lists the functions, by entry, that the stacks' locks may be followed
// through, and the packages of those and of what is inlined there.
func (n *Namer) reach(stacks [][]uint64) (functions map[uint64]bool, packages map[string]bool) {
	functions, packages = make(map[uint64]bool), make(map[string]bool)
	seen := make(map[uint64]bool)
	for _, pcs := range stacks {
		from := n.lockFrame(pcs)
		for _, pc := range pcs[min(from, len(pcs)):min(from+maxCallers, len(pcs))] {
			if seen[pc] {
				continue
			}
			seen[pc] = true
			for _, f := range n.binary.Frames(pc - 1) {
				functions[f.Entry] = true
				packages[packageOf(f.Func)] = true
			}
		}
	}
	return functions, packages
}

// lockFrame is the index of the first frame of a stack outside the libraries.
func (n *Namer) lockFrame(pcs []uint64) int {
	for i, pc := range pcs {
		f, ok := n.binary.FuncAt(pc - 1)
		if !ok {
			return len(pcs)
		}
		if pkg := packageOf(f.Name); pkg != "runtime" && !strings.HasPrefix(pkg, "internal/runtime/") && !inLibrary(f.Name) {
			return i
		}
	}
	return len(pcs)
}

// Name is a lock's name.
type Name struct {
	Text string // as reports show it: server.(*client).mu
	Full string // with the import path, which tells apart what Text does not
	// Weak says that the name is of a pointer to the lock or of a local variable:
	// others may lead to the same lock. The lock's own, where known, goes first.
	Weak   bool
	Global bool // told by the lock's address, not by who takes it
}

// Disagree reports that what is known of a site names different locks.
func Disagree(err error) bool { return errors.Is(err, errDisagree) }

// Errors of Site that are no failure to understand the program.
var (
	errNoCaller = errors.New("no frame outside the libraries")
	errNoLock   = errors.New("what is called is given no lock")
	errCond     = errors.New("a Cond takes its lock again, which it only points to")
)

// Site names the lock that a stack waits for: ELF virtual addresses of return
// addresses, leaf first. The error says what was in the way.
func (n *Namer) Site(pcs []uint64) (Name, error) {
	from := n.lockFrame(pcs)
	if from == 0 || from >= len(pcs) {
		return Name{}, errNoCaller
	}
	callee, _ := n.binary.FuncAt(pcs[from-1] - 1)
	lock := lockOf(callee.Name)
	switch {
	case callee.Name == "sync.(*Cond).Wait":
		return Name{}, errCond
	case lock == "":
		return Name{}, errNoLock
	}
	at, p := place{reg: rAX}, lockAt(0)
	if strings.HasSuffix(callee.Name, "-fm") { // a method value: the closure's object has the receiver
		at.reg = rDX
		p, _ = p.load(8)
	}
	found, err := n.origin(pcs, from, at, p, lock)
	line, read := n.line(pcs[from])
	switch {
	case errors.Is(err, errDisagree):
		return Name{}, err
	case err != nil && read:
		owner := n.sources.owner(line)
		if owner == "" {
			return Name{}, err
		}
		f, _ := n.binary.FuncAt(pcs[from] - 1)
		owner = packageOf(f.Name) + "." + owner
		return Name{Text: selector(owner, line.field), Full: owner + "." + line.field}, nil
	case err != nil:
		return Name{}, err
	case read && line.contradicts(found.Text):
		return Name{}, fmt.Errorf("%w: %s by the binary, the field %s by the source", errDisagree, found.Text, line.field)
	}
	return Name{Text: found.Text, Full: found.full, Weak: found.weak}, nil
}

// line reads the source of the call at a frame, of the innermost function inlined
// there that is not the library's.
func (n *Namer) line(pc uint64) (taken, bool) {
	if n.sources == nil {
		return taken{}, false
	}
	for _, f := range n.binary.Frames(pc - 1) {
		if !inLibrary(f.Func) {
			return n.sources.takes(f.File, f.Line)
		}
	}
	return taken{}, false
}
