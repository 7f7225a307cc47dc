package lockname

import "strings"

// name is what a pointer's origin says of a lock.
type name struct {
	Text string // as reports show it
	full string // with import paths
	weak bool   // told by a pointer to the lock or a variable: other pointers may lead to it
	in   string // the function of whose local variable it is told by

	captured bool // that variable is another function's
}

// base is what a pointer at the start of a path is known as: a global, a local
// variable, or nothing.
type base struct {
	text, full string
	in         string // the function of a local, else ""
	global     bool   // names all that is in it, whatever the types in it are called
	weak       bool   // it only points to the lock
}

func (b base) field(fields string) base {
	if fields == "" {
		return b
	}
	if strings.HasPrefix(fields, "[") {
		b.text, b.full = b.text+fields, b.full+fields
		return b
	}
	b.text, b.full = b.text+"."+fields, b.full+"."+fields
	return b
}

func (b base) name(weak bool) name {
	if b.text == "" {
		return name{}
	}
	n := name{Text: b.text, full: b.full, weak: weak, in: b.in}
	if b.in != "" {
		n.Text += " in " + shortName(b.in)
		n.full += " in " + b.in
	}
	return n
}

// follow walks a path from a pointer to t and names the lock at its end, which is
// of the library's type lock. Best is the field of the innermost struct type with a
// name; where the path only leads to a pointer to the lock, the field that has
// the pointer, which is weak.
func follow(t *typ, indexed bool, p path, lock string, from base) (n name, ok bool) {
	accesses := p.accesses()
	weak := from.weak
	for i, a := range accesses {
		if indexed {
			a = element(t, a)
		}
		s, found := find(t, a)
		if !found {
			return name{}, false
		}
		last := i == len(accesses)-1
		here := from.field(s.all)
		if s.container != "" && !from.global {
			here = base{text: selector(s.container, s.fields), full: withoutArguments(s.container) + "." + s.fields}
			weak = false
		}
		switch {
		case s.library && last && !holds(s.leaf, s.rest, lock):
			return name{}, false
		case s.library && !last && strings.HasPrefix(s.leaf.name, "sync."):
			return name{}, false
		case s.library:
			n := here.name(weak)
			return n, n.Text != ""
		case last:
			return name{}, false
		}
		indexed = false
		switch {
		case s.leaf.kind == kindPointer && s.rest == 0:
			t, weak = s.leaf.elem(), true
		case s.leaf.kind == kindSlice && s.rest == 0:
			t, indexed = s.leaf.elem(), true
			here = here.field("[…]")
		case s.leaf.kind == kindInterface && s.rest == 8 && s.container != "" && !inStandard(s.container):
			return here.name(true), true
		default:
			return name{}, false
		}
		if inStandard(s.container) {
			here = base{} // whose pointers lead to locks of anyone
		}
		from = here
		from.global = false
	}
	return name{}, false
}

// inStandard reports a type of the standard library, whose first path element has
// no dot. A module's may have none either: main and such are not standard.
func inStandard(name string) bool {
	first, _, _ := strings.Cut(packageOf(name), "/")
	return standard[first]
}

var standard = func() map[string]bool {
	m := make(map[string]bool)
	for _, s := range strings.Fields(`archive bufio bytes compress container context crypto database debug embed encoding
		expvar fmt go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime
		slices sort strconv strings sync syscall testing text time unicode unique unsafe vendor weak`) {
		m[s] = true
	}
	return m
}()

// lockOf is the library's type that a function locks, waits for or uses, which it
// gets a pointer to in AX.
func lockOf(callee string) string {
	switch callee {
	case "internal/sync.runtime_SemacquireMutex", "sync.runtime_SemacquireMutex":
		return "sync.Mutex"
	case "sync.runtime_SemacquireRWMutex", "sync.runtime_SemacquireRWMutexR":
		return "sync.RWMutex"
	case "sync.runtime_SemacquireWaitGroup":
		return "sync.WaitGroup"
	case "sync.(*Cond).Wait": // what it locks again is not in it
		return ""
	}
	pkg, receiver, _, ok := methodOf(callee)
	if receiver, _, _ = strings.Cut(receiver, "["); !ok {
		return ""
	}
	switch name := pkg + "." + receiver; name {
	case "internal/sync.Mutex":
		return "sync.Mutex"
	case "sync.Pool": // has no lock of its own: all share one
		return ""
	default:
		return name
	}
}
