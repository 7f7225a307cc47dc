package analyze

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Kinds of frames, the values of Node.Kind.
const (
	KindApp     = "app"
	KindStd     = "std"
	KindRuntime = "runtime"
	KindKernel  = "kernel"
	KindNative  = "native" // neither Go nor kernel: C, vDSO
	KindMark    = "mark"   // synthetic: [unknown], [truncated]
)

// Synthetic frames.
const (
	markUnknown   = "[unknown]"
	markTruncated = "[truncated]"
	markNoApp     = "[no application frame]"
)

// function is a function as the analysis sees it, made once per name.
type function struct {
	name string // as shown
	key  string // as compared between builds, see functionKey
	kind string
	hits bitset // the rules' patterns that match it
}

// frame is one frame of a stack, interned.
type frame struct {
	fn   *function
	file string
	line int64
	id   uint32
}

func (f *frame) app() bool { return f.fn.kind == KindApp }

// site is the frame as "func file:line".
func (f *frame) site() string {
	if f.file == "" {
		return f.fn.name
	}
	return f.fn.name + " " + path.Base(f.file) + ":" + strconv.FormatInt(f.line, 10)
}

// stdRoots are the first elements of the standard library's import paths, as
// of Go 1.27. A path that begins with one is standard unless it is the
// target's own module: such elements without a dot are reserved for Go.
var stdRoots = func() map[string]bool {
	m := make(map[string]bool)
	for _, s := range strings.Fields(`archive bufio bytes cmp compress container context crypto
		database debug embed encoding errors expvar flag fmt go hash html image index internal io
		iter log maps math mime net os path plugin reflect regexp runtime simd slices sort strconv
		strings structs sync syscall testing text time unicode unique unsafe uuid vendor weak`) {
		m[s] = true
	}
	return m
}()

// packagePath is the import path in a Go symbol's name, "" for a name that is
// not a Go symbol.
func packagePath(fn string) string {
	if i := strings.IndexByte(fn, '['); i >= 0 { // type arguments hold paths of their own
		fn = fn[:i]
	}
	if strings.Contains(fn, "::") { // C++
		return ""
	}
	slash := strings.LastIndexByte(fn, '/') + 1
	dot := strings.IndexByte(fn[slash:], '.')
	if dot < 0 {
		return ""
	}
	return fn[:slash+dot]
}

// frameKind tells application code from the standard library and the rest.
// modules are the import paths of the targets' main modules.
func frameKind(fn string, modules map[string]bool) string {
	if fn == "" || fn[0] == '[' {
		return KindMark
	}
	pkg := packagePath(fn)
	switch {
	case pkg == "":
		return KindNative
	case pkg == "main":
		return KindApp
	case pkg == "runtime" || strings.HasPrefix(pkg, "internal/runtime/") || strings.HasPrefix(pkg, "runtime/internal/"):
		return KindRuntime
	}
	for m := range modules {
		if pkg == m || strings.HasPrefix(pkg, m) && pkg[len(m)] == '/' {
			return KindApp
		}
	}
	first, _, _ := strings.Cut(pkg, "/")
	if stdRoots[first] {
		return KindStd
	}
	return KindApp
}

// generated matches what the compiler numbers: closures (func1, func1.2), the
// wrappers of go and defer statements, bodies of range-over-func loops, init
// functions.
var generated = regexp.MustCompile(`\.(func|gowrap|deferwrap|init\.)[0-9]+(?:\.[0-9]+)*|(-range)[0-9]+`)

// functionKey is the name by which a function of one build is found in
// another: without type arguments and generated numbering, and with the parts
// of sync that moved to internal/sync (Go 1.24) under their old name.
func functionKey(name string) string {
	key := shortName(name)
	key = strings.TrimSuffix(key, ".abi0")
	key = strings.TrimSuffix(key, "-fm")
	if rest, ok := strings.CutPrefix(key, "internal/sync."); ok {
		key = "sync." + rest
	}
	key = generated.ReplaceAllStringFunc(key, func(s string) string {
		if strings.HasPrefix(s, "-range") {
			return "-range"
		}
		return strings.TrimRight(s, "0123456789.")
	})
	return key
}

// shortName replaces type arguments by "...", as pprof shows them; they may
// hold whole struct types.
func shortName(name string) string {
	if strings.HasPrefix(name, "[") || !strings.Contains(name, "[") {
		return name
	}
	var b strings.Builder
	depth := 0
	for _, r := range name {
		switch {
		case r == '[':
			if depth == 0 {
				b.WriteString("[...")
			}
			depth++
		case r == ']' && depth > 0:
			depth--
			if depth == 0 {
				b.WriteByte(']')
			}
		case depth == 0:
			b.WriteRune(r)
		}
	}
	if depth > 0 { // cut by whoever wrote it
		b.WriteByte(']')
	}
	return b.String()
}

// bitset is a set of small integers.
type bitset []uint64

func (b *bitset) add(i int) {
	for len(*b) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bitset) intersects(o bitset) bool {
	for i := range min(len(b), len(o)) {
		if b[i]&o[i] != 0 {
			return true
		}
	}
	return false
}
