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
	vars    map[uint64][]variable
	symbols *symbolize.Symbols // of data; read when first asked
	sources *sources
	types   *runtimeTypes // nil with debug information, or if they cannot be used
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
	n := &Namer{binary: b, codes: make(map[uint64]codeOrError), vars: make(map[uint64][]variable)}
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
		return "runtime types: " + n.err.Error()
	case n.err != nil:
		return "none: " + n.err.Error()
	}
	return "dwarf"
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
	case err != nil && read && line.receiver != "":
		f, _ := n.binary.FuncAt(pcs[from] - 1)
		pkg := packageOf(f.Name)
		return Name{
			Text: selector(pkg+"."+line.receiver, line.field), Full: pkg + "." + line.receiver + "." + line.field,
		}, nil
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

// origin follows a value that frame i gives to the one below.
func (n *Namer) origin(pcs []uint64, i int, at place, p path, lock string) (name, error) {
	var weak name
	var why error
	for range maxCallers {
		c, call, err := n.callAt(pcs[i], pcs[i-1])
		if err != nil {
			why = err
			break
		}
		t := &tracer{c: c, cfa: n.frameAddress, name: n.functionAt, vars: n.variableAt(c, lock)}
		origins, failed := t.run(call, at, p)
		if weak.Text == "" && t.weak.captured {
			weak = t.weak
		}
		if failed != "" {
			why = fmt.Errorf("%s: %s", c.Name, failed)
			break
		}
		found, caller, err := n.agree(origins, t.weak, lock)
		if err != nil {
			return name{}, fmt.Errorf("%s: %w", c.Name, err)
		}
		if caller == nil {
			return found, nil
		}
		if found := n.byReceiver(c.Name, caller, lock); found.Text != "" {
			return found, nil
		}
		if i+1 >= len(pcs) || caller.at.slot {
			why = fmt.Errorf("%s: it comes from a caller that is not known", c.Name)
			break
		}
		i, at, p = i+1, caller.at, caller.path
	}
	if weak.Text != "" {
		return weak, nil
	}
	if why == nil {
		why = errors.New("it is handed through too many callers")
	}
	return name{}, why
}

// byReceiver names a lock that is reached from a method's receiver, which is what
// came in AX.
func (n *Namer) byReceiver(function string, o *origin, lock string) name {
	receiver := receiverOf(function)
	if n.types == nil || receiver == "" || o.at != (place{reg: rAX}) || inLibrary(receiver) {
		return name{}
	}
	t := n.types.named(receiver)
	if t == nil {
		return name{}
	}
	found, _ := follow(t, false, o.path, lock, base{weak: true})
	return found
}

var errDisagree = errors.New("two ways lead to different locks")

// agree says what all origins name, or the one place in which all came from the
// caller.
func (n *Namer) agree(origins []origin, made name, lock string) (found name, caller *origin, err error) {
	for k := range origins {
		o := &origins[k]
		if o.entry {
			if caller != nil && *caller != *o {
				return found, nil, errDisagree
			}
			caller = o
			continue
		}
		here := o.name
		if o.made {
			if here = made; here.Text == "" {
				return found, nil, errors.New("a new lock without a name")
			}
		}
		if o.global {
			if here = n.throughGlobal(o.addr, o.path, lock); here.Text == "" {
				return found, nil, errors.New("a global without a name")
			}
		}
		if found.Text != "" && found != here {
			return found, nil, errDisagree
		}
		found = here
	}
	if caller != nil && found.Text != "" {
		return found, nil, errDisagree
	}
	if caller == nil && found.Text == "" {
		return found, nil, errors.New("no way leads there")
	}
	return found, caller, nil
}

// callAt finds the call that returns to pc and checks that it is of the function
// in which the frame below is: a wrapper that jumps on has changed the arguments.
func (n *Namer) callAt(pc, below uint64) (*code, int32, error) {
	c, err := n.code(pc - 1)
	if err != nil {
		return nil, 0, err
	}
	call, ok := c.callBefore(pc)
	if !ok {
		return nil, 0, fmt.Errorf("%s: no call returns to %#x", c.Name, pc)
	}
	if to := c.insts[call].target(); to != 0 {
		if f, ok := n.binary.FuncAt(below - 1); !ok || f.Entry != to {
			return nil, 0, fmt.Errorf("%s: what it calls jumps on", c.Name)
		}
	}
	return c, call, nil
}

func (n *Namer) code(addr uint64) (*code, error) {
	f, ok := n.binary.FuncAt(addr)
	if !ok {
		return nil, fmt.Errorf("%#x is in no function", addr)
	}
	if c, ok := n.codes[f.Entry]; ok {
		return c.code, c.err
	}
	var c codeOrError
	text, err := n.binary.Code(f)
	if err == nil {
		c.code, err = decode(f, text, n.neverReturns)
	}
	c.err = err
	n.codes[f.Entry] = c
	return c.code, err
}

func (n *Namer) neverReturns(entry uint64) bool { return neverReturns(n.functionAt(entry)) }

// functionAt names the function that starts at an address.
func (n *Namer) functionAt(entry uint64) string {
	f, ok := n.binary.FuncAt(entry)
	if !ok || f.Entry != entry {
		return ""
	}
	return f.Name
}

// frameAddress is how far the canonical frame address is above SP.
func (n *Namer) frameAddress(pc uint64) (int64, bool) {
	size, ok := n.binary.FrameSize(pc)
	return size + 8, ok
}

// variableAt looks up what a function's variables say of the pointer in a place.
func (n *Namer) variableAt(c *code, lock string) func(uint64, place, path) (name, bool) {
	if n.debug == nil {
		return func(uint64, place, path) (name, bool) { return name{}, false }
	}
	vars := n.vars[c.Entry]
	return func(pc uint64, at place, p path) (found name, final bool) {
		for i := range vars {
			v := &vars[i]
			piece, ok := v.at(pc, at)
			if !ok {
				continue
			}
			here := n.debug.behind(v, piece.off, p, lock, outermost(c.Name))
			switch {
			case here.Text == "":
			case !here.weak || here.in == "":
				return here, true
			default:
				found = here
			}
		}
		return found, false
	}
}

// behind names the lock to which a path leads from the pointer at an offset of a
// variable.
func (d *debugInfo) behind(v *variable, off int64, p path, lock, function string) name {
	s, ok := find(d.typeAt(v.ref), access{off: off})
	if !ok {
		return name{}
	}
	from := base{weak: true}
	if !v.param || v.moved() {
		variable := strings.TrimPrefix(v.name, "&")
		from = base{text: variable, full: variable, in: function, weak: !v.moved()}
	}
	var t *typ
	indexed := false
	switch {
	case s.leaf.kind == kindPointer && s.rest == 0:
		t = s.leaf.elem()
	case s.leaf.kind == kindSlice && s.rest == 0:
		t, indexed = s.leaf.elem(), true
	default:
		return name{}
	}
	if from.text != "" && s.all != "" {
		from = from.field(s.all)
	}
	n, _ := follow(t, indexed, p, lock, from)
	n.captured = v.closure > 0
	return n
}

// outermost is the function that a closure, or a closure of a closure, is in.
func outermost(function string) string {
	short := shortName(function)
	for _, mark := range [...]string{".func", ".gowrap", ".deferwrap", "-range", "-fm"} {
		if i := strings.Index(short, mark); i > 0 && (mark == "-fm" || i+len(mark) < len(short) && short[i+len(mark)] >= '0' && short[i+len(mark)] <= '9') {
			short = short[:i]
		}
	}
	return short
}
