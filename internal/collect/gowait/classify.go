package gowait

import (
	"strings"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// kind is what a goroutine waits for, told by the function through which it
// entered the runtime (src/runtime/sema.go).
type kind struct {
	reason string // the runtime's wait reason, as runtime2.go spells it
	class  string
	// owner gives a lock's address for that of one of its semaphores, or is nil.
	// The semaphores of one lock then meet: of a RWMutex, those of its readers,
	// its writer, and its inner mutex.
	owner func(sema uint64) uint64
}

// The kinds by entry function. sync.Mutex{state, sema @4}; sync.RWMutex{w Mutex,
// writerSem @8, readerSem @12}; internal/poll.fdMutex{state uint64, rsema @8, wsema @12}.
var kinds = map[string]kind{
	"internal/sync.runtime_SemacquireMutex": {"sync.Mutex.Lock", recording.ClassLock, offset(4)},
	"sync.runtime_SemacquireMutex":          {"sync.Mutex.Lock", recording.ClassLock, offset(4)}, // Go ≤ 1.23
	"sync.runtime_SemacquireRWMutex":        {"sync.RWMutex.Lock", recording.ClassLock, offset(8)},
	"sync.runtime_SemacquireRWMutexR":       {"sync.RWMutex.RLock", recording.ClassLock, offset(12)},
	"internal/poll.runtime_Semacquire":      {"semacquire", recording.ClassLock, func(sema uint64) uint64 { return (sema - 8) &^ 7 }},
	"sync.runtime_SemacquireWaitGroup":      {"sync.WaitGroup.Wait", recording.ClassJoin, nil},
	"sync.runtime_Semacquire":               {"semacquire", recording.ClassSemaphore, nil}, // by linkname, from other modules
}

var (
	kindRuntime = kind{"semacquire", recording.ClassRuntime, nil}
	kindUnknown = kind{"", recording.ClassUnknown, nil}
	kindJoin    = kind{"semacquire", recording.ClassJoin, nil}
)

func offset(n uint64) func(uint64) uint64 {
	return func(sema uint64) uint64 { return sema - n }
}

// splitWait takes the frames below the application's view off a waiter's stack,
// so that it starts where the runtime's block profile starts or a little deeper,
// and says what kind of wait it is.
func splitWait(stack []*profile.Location) ([]*profile.Location, kind) {
	for len(stack) > 0 && isOneOf(stack[0], funcPark, funcAcquire) {
		stack = stack[1:]
	}
	if len(stack) == 0 {
		return stack, kindRuntime
	}
	if k, ok := kinds[outermost(stack[0])]; ok {
		// Up to Go 1.23 WaitGroups share an entry with who links to it by name.
		if stack = stack[1:]; k.class == recording.ClassSemaphore && within(stack, "sync.(*WaitGroup).Wait") {
			k = kindJoin
		}
		return stack, k
	}
	return stack, kindRuntime
}

// splitWake does the same for a waker's stack.
func splitWake(stack []*profile.Location) []*profile.Location {
	for len(stack) > 1 && (isOneOf(stack[0], funcRelease) ||
		strings.HasSuffix(outermost(stack[0]), ".runtime_Semrelease")) {
		stack = stack[1:]
	}
	return stack
}

// releaseSite is the first frame outside the packages that implement locks, or
// the leaf where all are inside.
func releaseSite(stack []*profile.Location) *profile.Line {
	for _, loc := range stack {
		for i := range loc.Line {
			if !inLockCode(loc.Line[i].Function.Name) {
				return &loc.Line[i]
			}
		}
	}
	if len(stack) == 0 || len(stack[0].Line) == 0 {
		return nil
	}
	return &stack[0].Line[0]
}

func inLockCode(function string) bool {
	for _, pkg := range [...]string{"runtime.", "sync.", "internal/sync."} {
		if strings.HasPrefix(function, pkg) {
			return true
		}
	}
	return false
}

// within reports whether a stack begins in a function, or in one inlined with it.
func within(stack []*profile.Location, function string) bool {
	if len(stack) == 0 {
		return false
	}
	for _, l := range stack[0].Line {
		if l.Function.Name == function {
			return true
		}
	}
	return false
}

func isOneOf(loc *profile.Location, functions ...string) bool {
	name := outermost(loc)
	for _, f := range functions {
		if name == f {
			return true
		}
	}
	return false
}

// outermost names the function whose code a location is in; those inlined there
// come before it.
func outermost(loc *profile.Location) string {
	if len(loc.Line) == 0 {
		return ""
	}
	return loc.Line[len(loc.Line)-1].Function.Name
}
