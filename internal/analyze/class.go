package analyze

import (
	"strings"

	"contend/internal/recording"
)

// Kinds of locks, the values of Lock.Kind.
const (
	kindMutex     = "mutex"
	kindRWMutex   = "rwmutex"
	kindFDMutex   = "fdmutex"
	kindWaitGroup = "waitgroup"
	kindUnknown   = "unknown"
)

// waitFunc says what a function of the standard library or the runtime that
// was found below the application means. A trailing * stands for any rest.
type waitFunc struct {
	fn, class, kind string
	unlock          bool
}

// waitFuncs are tried for every frame from the leaf up; names are keys, so
// internal/sync reads sync.
var waitFuncs = []waitFunc{
	{"sync.(*Mutex).Lock", recording.ClassLock, kindMutex, false},
	{"sync.(*Mutex).lockSlow", recording.ClassLock, kindMutex, false},
	{"sync.runtime_SemacquireMutex", recording.ClassLock, kindMutex, false},
	{"sync.(*RWMutex).Lock", recording.ClassLock, kindRWMutex, false},
	{"sync.(*RWMutex).RLock", recording.ClassLock, kindRWMutex, false},
	{"sync.runtime_SemacquireRWMutex*", recording.ClassLock, kindRWMutex, false},
	{"sync.(*Mutex).Unlock", recording.ClassLock, kindMutex, true},
	{"sync.(*Mutex).unlockSlow", recording.ClassLock, kindMutex, true},
	{"sync.(*RWMutex).Unlock", recording.ClassLock, kindRWMutex, true},
	{"sync.(*RWMutex).RUnlock", recording.ClassLock, kindRWMutex, true},
	{"sync.(*RWMutex).rUnlockSlow", recording.ClassLock, kindRWMutex, true},
	{"internal/poll.(*fdMutex).rwunlock", recording.ClassLock, kindFDMutex, true},
	{"internal/poll.(*fdMutex)*", recording.ClassLock, kindFDMutex, false},
	{"internal/poll.runtime_Semacquire", recording.ClassLock, kindFDMutex, false},
	{"sync.(*WaitGroup).Wait", recording.ClassJoin, kindWaitGroup, false},
	{"sync.runtime_SemacquireWaitGroup", recording.ClassJoin, kindWaitGroup, false},
	{"sync.(*Cond).Wait", recording.ClassCond, "", false},
	{"sync.runtime_notifyListWait", recording.ClassCond, "", false},
	{"runtime.chanrecv*", recording.ClassChannel, "", false},
	{"runtime.chansend*", recording.ClassChannel, "", false},
	{"runtime.closechan", recording.ClassChannel, "", false},
	{"runtime.selectgo", recording.ClassSelect, "", false},
	{"runtime.block", recording.ClassSelect, "", false},
	{"internal/poll.(*pollDesc).wait", recording.ClassIO, "", false},
	{"internal/poll.runtime_pollWait", recording.ClassIO, "", false},
	{"runtime.netpollblock", recording.ClassIO, "", false},
	{"time.Sleep", recording.ClassSleep, "", false},
	{"runtime.timeSleep", recording.ClassSleep, "", false},
	{"syscall.Syscall*", recording.ClassSyscall, "", false},
	{"syscall.RawSyscall*", recording.ClassSyscall, "", false},
	{"internal/runtime/syscall*", recording.ClassSyscall, "", false},
	{"runtime/internal/syscall*", recording.ClassSyscall, "", false},
	{"runtime.cgocall", recording.ClassSyscall, "", false},
	{"runtime._LostContendedRuntimeLock", recording.ClassRuntime, "", true},
	{"runtime.unlock*", recording.ClassRuntime, "", true},
	{"runtime.lock*", recording.ClassRuntime, "", false},
	{"runtime.gc*", recording.ClassRuntime, "", false},
	{"runtime.stopTheWorld*", recording.ClassRuntime, "", false},
	{"runtime.semrelease*", recording.ClassRuntime, "", true},
	{"runtime.semacquire", recording.ClassRuntime, "", false},
	{"runtime.bgsweep", recording.ClassRuntime, "", false},
	{"runtime.bgscavenge", recording.ClassRuntime, "", false},
	{"runtime.forcegchelper", recording.ClassRuntime, "", false},
	{"runtime.runfinq", recording.ClassRuntime, "", false},
	{"runtime.runFinalizers", recording.ClassRuntime, "", false},
	{"runtime.runCleanups", recording.ClassRuntime, "", false},
	{"runtime.mPark", recording.ClassRuntime, "", false},
	{"runtime.notesleep", recording.ClassRuntime, "", false},
	{"runtime.notetsleep*", recording.ClassRuntime, "", false},
	{"runtime.netpoll", recording.ClassRuntime, "", false},
	{"runtime.usleep", recording.ClassRuntime, "", false},
	{"sync.runtime_Semacquire", recording.ClassSemaphore, "", false},
	{"runtime.semacquire1", recording.ClassSemaphore, "", false},
	{"runtime.gopark", recording.ClassUnknown, "", false},
}

// parked are runtime functions that only say that a goroutine waits; what for
// is told by the frames above them.
var parked = map[string]bool{
	"runtime.semacquire1": true, "sync.runtime_Semacquire": true, "runtime.gopark": true, "runtime.goparkunlock": true,
	"runtime.semrelease1": true,
}

var exactWaitFuncs, prefixWaitFuncs = func() (map[string]*waitFunc, []*waitFunc) {
	exact := map[string]*waitFunc{}
	var prefix []*waitFunc
	for i := range waitFuncs {
		w := &waitFuncs[i]
		if s, ok := strings.CutSuffix(w.fn, "*"); ok {
			w.fn = s
			prefix = append(prefix, w)
		} else {
			exact[w.fn] = w
		}
	}
	return exact, prefix
}()

func findWaitFunc(key string) *waitFunc {
	if w := exactWaitFuncs[key]; w != nil {
		return w
	}
	for _, w := range prefixWaitFuncs {
		if strings.HasPrefix(key, w.fn) {
			return w
		}
	}
	return nil
}

// classOf tells a wait's class and the kind of lock from the frames between
// the leaf and the deepest application frame. Unlabelled stacks whose frames
// do not tell (a PGO build inlines chanrecv1 away) stay unknown.
func classOf(s *stack) (cls, kind string, unlock bool) {
	cls = recording.ClassUnknown
	for _, f := range s.below() {
		if f.fn.kind != KindStd && f.fn.kind != KindRuntime {
			continue
		}
		w := findWaitFunc(f.fn.key)
		if w == nil {
			continue
		}
		if cls == recording.ClassUnknown || cls == recording.ClassSemaphore && w.class != recording.ClassUnknown {
			cls, kind, unlock = w.class, w.kind, w.unlock
			continue
		}
		// A RWMutex parks writers on its inner mutex: the wait is the RWMutex's.
		if cls == recording.ClassLock && w.kind == kindRWMutex {
			kind = kindRWMutex
		}
		if !parked[f.fn.key] && !strings.HasPrefix(f.fn.key, "sync.") {
			break
		}
	}
	if kind == "" {
		kind = kindUnknown
	}
	return cls, kind, unlock
}

// below are the frames from the leaf up to the deepest application frame,
// exclusive; all of them when there is none.
func (s *stack) below() []*frame {
	if s.boundary < 0 {
		return s.frames
	}
	return s.frames[:s.boundary]
}

// classByReason maps the runtime's wait reasons to classes, longest prefix
// first where they overlap. "semacquire" is told by frames.
var classByReason = []struct{ prefix, class string }{
	{"sync.Mutex.Lock", recording.ClassLock},
	{"sync.RWMutex.", recording.ClassLock},
	{"sync.WaitGroup.Wait", recording.ClassJoin},
	{"sync.Cond.Wait", recording.ClassCond},
	{"chan ", recording.ClassChannel},
	{"select", recording.ClassSelect},
	{"IO wait", recording.ClassIO},
	{"sleep", recording.ClassSleep},
	{"GC ", recording.ClassRuntime},
	{"wait for GC", recording.ClassRuntime},
	{"garbage collection", recording.ClassRuntime},
	{"stopping the world", recording.ClassRuntime},
	{"finalizer wait", recording.ClassRuntime},
	{"cleanup wait", recording.ClassRuntime},
	{"force gc", recording.ClassRuntime},
	{"trace reader", recording.ClassRuntime},
	{"GOMAXPROCS updater", recording.ClassRuntime},
	{"flushing proc caches", recording.ClassRuntime},
}

// effectiveClass is the class of a row: the recorded one, else by wait reason,
// else by frames.
func (r *row) effectiveClass() string {
	if r.class != "" {
		return r.class
	}
	for _, c := range classByReason {
		if strings.HasPrefix(r.wait, c.prefix) {
			return c.class
		}
	}
	return r.stack.class
}

// lockKind is the kind of lock of a row of class lock or join.
func (r *row) lockKind() string {
	if r.stack.kind != kindUnknown {
		return r.stack.kind
	}
	switch {
	case strings.HasPrefix(r.wait, "sync.Mutex"):
		return kindMutex
	case strings.HasPrefix(r.wait, "sync.RWMutex"):
		return kindRWMutex
	case strings.HasPrefix(r.wait, "sync.WaitGroup"):
		return kindWaitGroup
	}
	return kindUnknown
}
