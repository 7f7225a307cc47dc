package offcpu

import (
	"strings"

	"contend/bpf"
	"contend/internal/recording"
)

// classOf has the functions that tell why a thread sleeps, wherever they are on
// its stack; the innermost decides. Those of the sync package are found on the
// stacks of goroutines locked to their thread.
var classOf = map[string]string{
	// Threads without work, and the runtime's own.
	"runtime.netpoll":              recording.ClassIO,
	"runtime.stopm":                recording.ClassRuntime,
	"runtime.mPark":                recording.ClassRuntime,
	"runtime.findRunnable":         recording.ClassRuntime,
	"runtime.stoplockedm":          recording.ClassRuntime,
	"runtime.sysmon":               recording.ClassRuntime,
	"runtime.templateThread":       recording.ClassRuntime,
	"runtime.stopTheWorldWithSema": recording.ClassRuntime,
	"runtime.lock2":                recording.ClassRuntime,
	"runtime.gcBgMarkWorker":       recording.ClassRuntime,
	// A goroutine that blocks its thread without a P, as os/signal's loop does.
	"runtime.notetsleepg": recording.ClassSyscall,
	// Parked goroutines.
	"internal/sync.runtime_SemacquireMutex": recording.ClassLock,
	"sync.runtime_SemacquireMutex":          recording.ClassLock, // Go ≤ 1.23
	"sync.runtime_SemacquireRWMutex":        recording.ClassLock,
	"sync.runtime_SemacquireRWMutexR":       recording.ClassLock,
	"internal/poll.runtime_Semacquire":      recording.ClassLock, // fdMutex
	"sync.runtime_SemacquireWaitGroup":      recording.ClassJoin,
	"sync.runtime_Semacquire":               recording.ClassJoin, // Go ≤ 1.23
	"sync.runtime_notifyListWait":           recording.ClassCond,
	"runtime.chanrecv":                      recording.ClassChannel,
	"runtime.chansend":                      recording.ClassChannel,
	"runtime.selectgo":                      recording.ClassSelect,
	"runtime.block":                         recording.ClassSelect, // select {}
	"runtime.netpollblock":                  recording.ClassIO,
	"time.Sleep":                            recording.ClassSleep,
}

// classify tells the class of a sleep from the function names of its user
// stack, innermost first, and from how the thread left the CPU.
func classify(names []string, flags bpf.OffcpuOffFlags) string {
	for _, name := range names {
		if class, ok := classOf[name]; ok {
			return class
		}
	}
	switch {
	case flags&bpf.OffcpuOffFlagsOFF_LOCKED != 0: // nothing it waits for: preempted or back from a call, it wants a P
		return recording.ClassRuntime
	case len(names) > 0 && strings.HasPrefix(names[0], "runtime."):
		return recording.ClassRuntime
	case flags&bpf.OffcpuOffFlagsOFF_SYSCALL != 0:
		return recording.ClassSyscall
	case len(names) > 0: // outside a system call a thread sleeps in a page fault only: in the kernel, too
		return recording.ClassSyscall
	}
	return recording.ClassUnknown // the stack could not be read
}
