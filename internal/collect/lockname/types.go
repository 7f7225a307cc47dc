package lockname

import "strings"

// typeKind is what of a type's kind matters for finding a field.
type typeKind uint8

const (
	kindOther typeKind = iota
	kindStruct
	kindPointer
	kindArray
	kindSlice
	kindInterface
)

// typ is a type as debug information has it. Fields and element are read when
// asked for: the types that a broker's structs lead to are all of its types.
type typ struct {
	kind   typeKind
	name   string // with import path; "" if it has none
	size   int64
	elem   func() *typ // of pointers, arrays and slices; may return nil
	fields func() []field
}

type field struct {
	name string
	off  int64
	typ  *typ
}

// libraries are the packages whose types a reader takes for one thing: a
// sync.Once is no struct with a mutex in it, nor is an os.File.
var libraries = map[string]bool{
	"sync": true, "internal/sync": true, "internal/poll": true, "os": true, "net": true,
	"golang.org/x/sync/singleflight": true, "golang.org/x/sync/errgroup": true, "internal/singleflight": true,
}

func inLibrary(name string) bool { return libraries[strings.TrimPrefix(packageOf(name), "vendor/")] }

// packageOf is the import path in the name of a function or type.
func packageOf(name string) string {
	name = strings.TrimLeft(name, "*[]")
	if i := strings.IndexByte(name, '['); i >= 0 { // type arguments have paths of their own
		name = name[:i]
	}
	slash := strings.LastIndexByte(name, '/') + 1
	dot := strings.IndexByte(name[slash:], '.')
	if dot < 0 {
		return ""
	}
	return unescape(name[:slash+dot])
}

// unescape undoes what the linker does to dots in the last element of a path.
func unescape(p string) string { return strings.ReplaceAll(p, "%2e", ".") }

// spot is where in a type an offset lies.
type spot struct {
	container string // the innermost struct type with a name, with import path
	fields    string // from there: "stats.mu", "shards[…].mu"
	all       string // from the beginning
	leaf      *typ   // what is there, or the library's type
	rest      int64  // the offset in it
	library   bool
}

// maxNesting bounds structs within structs, which corrupt data could make endless.
const maxNesting = 64

// find descends to the innermost type at an offset.
func find(t *typ, a access) (spot, bool) {
	var s spot
	off, arrays := a.off, 0
	for range maxNesting {
		if t == nil {
			return s, false
		}
		s.leaf, s.rest = t, off
		if inLibrary(t.name) {
			s.library = true
			return s, !a.indexed || arrays > 0
		}
		switch t.kind {
		case kindStruct:
			f, ok := fieldAt(t, off)
			if !ok {
				return s, false
			}
			if t.name != "" {
				s.container, s.fields = t.name, ""
			}
			s.fields, s.all = join(s.fields, f.name), join(s.all, f.name)
			t, off = f.typ, off-f.off
		case kindArray:
			elem := t.elem()
			if elem == nil || elem.size <= 0 || off < 0 || off >= t.size {
				return s, false
			}
			arrays++
			s.fields, s.all = s.fields+"[…]", s.all+"[…]"
			t, off = elem, off%elem.size
		default:
			return s, !a.indexed || arrays > 0
		}
	}
	return s, false
}

func join(fields, name string) string {
	if fields == "" {
		return name
	}
	return fields + "." + name
}

func fieldAt(t *typ, off int64) (field, bool) {
	for _, f := range t.fields() {
		if f.typ != nil && off >= f.off && off < f.off+f.typ.size {
			return f, true
		}
	}
	return field{}, false
}

// element prepares a pointer to the elements of a slice for find: with an index,
// constant offsets count from any of them.
func element(t *typ, a access) access {
	if a.indexed && t != nil && t.size > 0 {
		a.off = (a.off%t.size + t.size) % t.size
		a.indexed = false
	}
	return a
}

// holds reports whether a type holds one of a given name at an offset: a
// sync.RWMutex a sync.Mutex at 0.
func holds(t *typ, off int64, name string) bool {
	for range maxNesting {
		if t == nil {
			return false
		}
		if sameType(t.name, name) {
			return true
		}
		switch t.kind {
		case kindStruct:
			f, ok := fieldAt(t, off)
			if !ok {
				return false
			}
			t, off = f.typ, off-f.off
		case kindArray:
			elem := t.elem()
			if elem == nil || elem.size <= 0 {
				return false
			}
			t, off = elem, off%elem.size
		default:
			return false
		}
	}
	return false
}

// sameType compares names without type arguments, of which functions only know
// shapes.
func sameType(a, b string) bool {
	a, _, _ = strings.Cut(a, "[")
	b, _, _ = strings.Cut(b, "[")
	return a == b
}

// withoutArguments replaces type arguments by [...].
func withoutArguments(name string) string {
	if before, _, generic := strings.Cut(name, "["); generic {
		return before + "[...]"
	}
	return name
}

// selector writes a field of a named struct type as its methods would be called:
// server.(*client).mu.
func selector(container, fields string) string {
	short, _, generic := strings.Cut(container, "[")
	short = unescape(short[strings.LastIndexByte(short, '/')+1:])
	pkg, name, ok := strings.Cut(short, ".")
	if !ok {
		pkg, name = "", short
	}
	if i := strings.LastIndexByte(short, '.'); i > 0 && strings.Count(short, ".") > 1 { // a path that ends in .v3
		pkg, name = short[:i], short[i+1:]
	}
	if generic {
		name += "[...]"
	}
	return join(pkg, "(*"+name+")."+fields)
}

// shortName cuts the import path off a global's name or a function's.
func shortName(name string) string { return unescape(name[afterPath(name):]) }

// afterPath is where in a name the last element of the import path begins.
func afterPath(name string) int {
	if i := strings.IndexByte(name, '['); i >= 0 { // type arguments have paths of their own
		name = name[:i]
	}
	return strings.LastIndexByte(name, '/') + 1
}
