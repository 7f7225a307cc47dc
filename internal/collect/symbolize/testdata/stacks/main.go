// Command stacks prints, for stacks of many kinds, the return addresses that a
// walk of the frame pointers finds and what the runtime says they are. "stacks
// wait" then waits for the end of its input.
package main

import (
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"contend/internal/collect/symbolize/testdata/stacks/fp"
)

// twice is replaced by a C function where cgo is in the build.
var twice = func(n int) int { return 2 * n }

var out strings.Builder

func hex(v uintptr) string { return strconv.FormatUint(uint64(v), 16) }

//go:noinline
func capture(name string) {
	out.WriteString("stack " + name + "\n")
	for bp := fp.Get(); bp != 0; bp = *(*uintptr)(unsafe.Pointer(bp)) {
		out.WriteString("pc " + hex(*(*uintptr)(unsafe.Pointer(bp + 8))) + "\n")
	}
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		out.WriteString("frame " + hex(f.Entry) + "\t" + strconv.Itoa(f.Line) + "\t" + f.Function + "\t" + f.File + "\n")
	}
}

func inlinedOnce(name string)  { capture(name) }
func inlinedTwice(name string) { inlinedOnce(name) }

//go:noinline
func generic[T any](name string, v T) T {
	capture(name)
	return v
}

func genericInlined[K comparable, V any](name string, m map[K]V) {
	func() { generic(name, m) }()
}

type inner struct{ pad [3]int }

//go:noinline
func (i inner) Value(name string) { capture(name) }

//go:noinline
func (i *inner) Pointer(name string) { capture(name) }

type outer struct {
	pad int
	inner
}

type deep struct{ *outer }

type method interface {
	Value(name string)
	Pointer(name string)
}

type list[T any] struct{ items []T }

//go:noinline
func (l *list[T]) each(f func(T)) {
	for _, item := range l.items {
		f(item)
	}
}

func panics(name string, f func()) {
	defer func() {
		capture(name)
		recover()
	}()
	f()
}

// deref has a frame, for a walk of frame pointers misses the caller of a function
// without one. The instruction before the one that faults is of another line.
//
//go:noinline
func deref(p *int, i int) byte {
	var frame [64]byte
	frame[i&63] = 1
	*p = i
	return frame[(i+1)&63]
}

// nothing is a nil whose method is one the compiler wraps.
var nothing method = (*inner)(nil)

func iterate(yield func(int) bool) {
	for i := range 2 {
		if !yield(i) {
			return
		}
	}
}

//go:noinline
func huge(name string) byte {
	var frame [64 << 10]byte
	frame[len(name)] = 1
	capture(name)
	return frame[3]
}

func last(name string, _ int, done chan bool) {
	inlinedOnce(name)
	close(done)
}

var atInit = func() string {
	func() { capture("package initialization") }()
	return ""
}()

func main() {
	capture("main")
	inlinedTwice("inlined")
	func() { func() { capture("closure in closure") }() }()
	generic("generic int", 1)
	generic("generic string", "")
	genericInlined("generic inlined", map[string]*int{})
	(&list[method]{items: []method{deep{&outer{}}}}).each(func(m method) {
		m.Value("embedded value in generic method")
		m.Pointer("embedded pointer in generic method")
	})
	bound := deep{&outer{}}.Value
	bound("method value")
	(*deep).Pointer(&deep{&outer{}}, "method expression")
	slices.SortFunc([]int{2, 1}, func(a, b int) int {
		inlinedOnce("standard library callback")
		return a - b
	})
	for range iterate {
		capture("range over func")
		break
	}
	huge("huge frame")
	panics("panic", func() { panic(1) })
	panics("nil dereference", func() { deref(nil, 1) })
	panics("nil receiver in wrapper", func() { nothing.Value("") })
	done := make(chan bool)
	go func() { defer close(done); inlinedTwice("goroutine") }()
	<-done
	done = make(chan bool)
	go last("go statement with arguments", twice(2), done)
	<-done
	runtime.KeepAlive(atInit)
	os.Stdout.WriteString(out.String() + "end\n")
	if len(os.Args) > 1 {
		io.Copy(io.Discard, os.Stdin)
	}
}
