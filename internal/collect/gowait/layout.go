package gowait

import (
	"fmt"
	"regexp"
	"strings"

	"contend/bpf"
)

// goLayout has the offsets inside the runtime's structs.
type goLayout struct {
	bpf.GowaitGoLayout
	gWaiting  uint32 // g.waiting
	sudogSize uint32

	// Of g, for the parks and the list of all goroutines.
	schedG, atomicstatus, goid, schedlink, waitsince, waitreason uint32
	pollRg, pollWg                                               uint32 // of pollDesc
}

// parks is the part that the probes of parks need.
func (l *goLayout) parks() bpf.GoparksParkLayout {
	return bpf.GoparksParkLayout{
		StackHi: l.StackHi, SchedSp: l.SchedSp, SchedPc: l.SchedPc, SchedBp: l.SchedBp,
		Schedlink: l.schedlink, Waitreason: l.waitreason,
		PollRg: l.pollRg, PollWg: l.pollWg,
	}
}

// runtime.semtable on amd64: semTabSize roots, each padded to a cache line.
const (
	semRoots    = 251
	semRootSize = 64
)

// layouts are the offsets by minor version of Go. Of 1.26:
// src/runtime/runtime2.go and sema.go, the same in 1.26.0 and 1.26.8 and, for
// these fields, on all 64-bit architectures. Where elem is a pointer beside its
// address ({vp, vu}), the offset is that of the address.
var layouts = map[string]goLayout{
	"1.26": {
		GowaitGoLayout: bpf.GowaitGoLayout{
			RootTreap:     8,  // semaRoot.treap
			SudogNext:     8,  // sudog.next: in the treap, larger addresses
			SudogPrev:     16, // sudog.prev: smaller addresses
			SudogElem:     32, // sudog.elem.vu
			SudogWaitlink: 72,
			StackHi:       8,  // g.stack.hi
			SchedSp:       56, // g.sched.sp
			SchedPc:       64, // g.sched.pc
			SchedBp:       96, // g.sched.bp
		},
		gWaiting:  320,
		sudogSize: 104,

		schedG:       72, // g.sched.g
		atomicstatus: 144,
		goid:         152,
		schedlink:    160,
		waitsince:    168,
		waitreason:   176,
		pollRg:       32,
		pollWg:       40,
	},
}

var released = regexp.MustCompile(`^go(1\.\d+)(\.\d+)?( .*)?$`)

// layoutFor returns the layout for a version as the linker records it:
// "go1.26.8", followed by experiments, "go1.26.8 X:name,…".
func layoutFor(version string) (goLayout, error) {
	m := released.FindStringSubmatch(version)
	if m == nil {
		return goLayout{}, &TargetError{fmt.Sprintf("the target was built with %s; only released versions of Go 1.26 are known", version)}
	}
	if strings.Contains(m[3], "staticlockranking") { // it enlarges every runtime mutex
		return goLayout{}, &TargetError{fmt.Sprintf("the target was built with %s, whose lock ranking moves the runtime's fields", version)}
	}
	layout, ok := layouts[m[1]]
	if !ok {
		return goLayout{}, &TargetError{fmt.Sprintf("the target was built with %s; only Go 1.26 is known", version)}
	}
	return layout, nil
}
