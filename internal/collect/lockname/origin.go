package lockname

import (
	"errors"
	"fmt"
	"strings"
)

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
		t := n.trace(c, call, traceKey{pcs[i], at, p, lock})
		if weak.Text == "" && t.weak.captured {
			weak = t.weak
		}
		if t.failed != "" {
			why = fmt.Errorf("%s: %s", c.Name, t.failed)
			break
		}
		found, caller, err := n.agree(t.origins, t.weak, lock)
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

// traceKey is what a trace depends on.
type traceKey struct {
	ret  uint64 // where the call returns to
	at   place
	path path
	lock string
}

// trace follows a value back from a call, once: thousands of stacks share the few
// calls that take a lock.
func (n *Namer) trace(c *code, call int32, k traceKey) *tracer {
	if t, ok := n.traces[k]; ok {
		return t
	}
	t := &tracer{c: c, cfa: n.frameAddress, name: n.functionAt, vars: n.variableAt(c, k.lock)}
	t.run(call, k.at, k.path)
	t.seen, t.work = nil, nil
	n.traces[k] = t
	return t
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
		var local name
		for i := range vars {
			v := &vars[i]
			piece, ok := v.at(pc, at)
			if !ok {
				continue
			}
			here := n.debug.behind(v, piece.off, p, lock, outermost(c.Name))
			switch {
			case here.Text == "":
			case here.weak && here.in != "":
				local = here
			case final && found.full != here.full: // one list is wrong there
				return name{}, false
			default:
				found, final = here, true
			}
		}
		if final {
			return found, true
		}
		return local, false
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
	start := afterPath(function)
	path, short := function[:start], function[start:]
	for _, mark := range [...]string{".func", ".gowrap", ".deferwrap", "-range", "-fm"} {
		if i := strings.Index(short, mark); i > 0 && (mark == "-fm" || i+len(mark) < len(short) && short[i+len(mark)] >= '0' && short[i+len(mark)] <= '9') {
			short = short[:i]
		}
	}
	return path + short
}
