// Package golayout knows where the structs of a target's Go runtime keep the
// fields that the collectors read: by the toolchain's release, from a table, or,
// for a toolchain that is in no table, from the DWARF of the target itself.
//
// What it gives is what ought to be there. Whoever reads a live target holds it to
// that target's memory first.
package golayout

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Layout has the offsets of fields, in bytes, on 64-bit architectures
// (src/runtime/runtime2.go, netpoll.go and sema.go).
type Layout struct {
	// Of g.
	StackHi      uint32 // g.stack.hi
	GM           uint32 // g.m
	SchedSP      uint32 // g.sched.sp, and the next three of g.sched
	SchedPC      uint32
	SchedG       uint32
	SchedBP      uint32
	Atomicstatus uint32
	Goid         uint32
	Schedlink    uint32
	Waitsince    uint32
	Waitreason   uint32
	Lockedm      uint32
	Waiting      uint32

	// Of m.
	MG0, Curg, Lockedg uint32

	// Of sudog. Elem is the word that tells what is waited for: the address of a
	// semaphore.
	SudogNext, SudogPrev, SudogElem, SudogWaitlink, SudogSize uint32

	RootTreap      uint32 // semaRoot.treap
	PollRg, PollWg uint32 // of pollDesc

	// SemaWaiting says that a wait on a semaphore sets g.waiting, as from Go 1.26 on.
	SemaWaiting bool
	// Source is where the offsets come from: FromTable or FromDWARF.
	Source string
}

// The sources of a layout.
const (
	FromTable = "table"
	FromDWARF = "DWARF"
)

// UnknownError says that a target's runtime is not known.
type UnknownError struct{ Why string }

func (e *UnknownError) Error() string { return e.Why }

// FirstMinor and LastMinor are the oldest and the newest Go, 1.minor, in the table.
const FirstMinor, LastMinor = 22, 27

// Known names the releases in the table.
var Known = fmt.Sprintf("Go 1.%d to 1.%d", FirstMinor, LastMinor)

// release is a version as the linker records it: "go1.26.8", "go1.26.8-vendor",
// followed by experiments or a vendor's remark, "go1.26.8 X:name,…". Candidates
// (go1.27rc1) and development versions (go1.27-devel_…, devel go1.27-…) are none.
var release = regexp.MustCompile(`^go1\.(\d+)(?:\.(\d+))?(-[^ ]+)?( .*)?$`)

// For returns the layout for the version of a target's toolchain. exe is the path of
// its executable, whose DWARF tells the layout of versions that are in no table.
// Errors are *UnknownError, or of reading the file.
func For(version, exe string) (*Layout, error) {
	if strings.Contains(version, "staticlockranking") { // it enlarges every runtime mutex
		return fromDWARF(version, exe, "its lock ranking moves the runtime's fields")
	}
	minor, patch, ok := parse(version)
	switch {
	case !ok:
		return fromDWARF(version, exe, "it is no release")
	case minor < FirstMinor:
		return nil, &UnknownError{fmt.Sprintf("the target was built with %s; %s are known", version, Known)}
	case minor > LastMinor:
		return fromDWARF(version, exe, "it is newer than "+Known)
	}
	return fromTable(minor, patch), nil
}

func parse(version string) (minor, patch int, ok bool) {
	m := release.FindStringSubmatch(version)
	if m == nil || strings.HasPrefix(m[3], "-devel") {
		return 0, 0, false
	}
	minor, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, 0, false
	}
	patch, err = strconv.Atoi("0" + m[2])
	return minor, patch, err == nil
}
