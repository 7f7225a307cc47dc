// Package privilege gives up capabilities that are no longer needed.
package privilege

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Set has a bit for each capability, by the kernel's number.
type Set uint64

// Of makes a set (capabilities(7); unix.CAP_…).
func Of(capabilities ...int) Set {
	var s Set
	for _, c := range capabilities {
		s |= 1 << c
	}
	return s
}

// Recorder is what a recorder needs once its probes are in place: to read the
// target's memory, to take probes out and put them back in mid-window, to name
// kernel functions, to end a command that it started, and to write files into
// folders of the user who called it and leave them to that user.
var Recorder = Of(
	unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_SYSLOG,
	unix.CAP_KILL, unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_DAC_OVERRIDE,
)

// Workload is what a workload of contend's own needs: to start its other processes
// from wherever the executable lies.
var Workload = Of(unix.CAP_DAC_READ_SEARCH)

// ErrCgo says that this program was built with cgo: then not all threads are the Go
// runtime's to speak for.
var ErrCgo = errors.New("privileges cannot be dropped by a contend that was built with cgo: build it with CGO_ENABLED=0")

// Keep gives up all capabilities of all threads but those in the set, for good: what
// this process starts cannot gain others either. It keeps CAP_SYS_ADMIN where that
// stands for CAP_BPF and CAP_PERFMON. A process without capabilities is left as it is.
func Keep(keep Set) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // the low and the high 32 capabilities
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	permitted := Set(data[0].Permitted) | Set(data[1].Permitted)<<32
	if permitted == 0 {
		return nil
	}
	if need := Of(unix.CAP_BPF, unix.CAP_PERFMON); keep&need == need && permitted&need != need {
		keep |= Of(unix.CAP_SYS_ADMIN)
	}
	kept := permitted & keep
	for i := range data {
		half := uint32(kept >> (32 * i))
		data[i] = unix.CapUserData{Effective: half, Permitted: half}
	}
	if err := allThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return fmt.Errorf("giving up the way to new privileges: %w", err)
	}
	err := allThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])))
	if err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	return nil
}

// allThreads makes a system call on every thread: capabilities are each thread's own.
//
//go:uintptrescapes
func allThreads(trap, a1, a2 uintptr) error {
	switch _, _, errno := syscall.AllThreadsSyscall6(trap, a1, a2, 0, 0, 0, 0); errno {
	case 0:
		return nil
	case syscall.ENOTSUP:
		return ErrCgo
	default:
		return errno
	}
}
