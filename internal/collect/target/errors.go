package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotFound reports a PID that no process has.
	ErrNotFound = errors.New("no such process")
	// ErrExited reports a process that has exited, or exited while it was read.
	ErrExited = errors.New("the process has exited")
	// ErrPermission reports a process of another user, or one shielded from
	// tracing.
	ErrPermission = errors.New("permission denied")
)

// NotGoError reports a process that runs no Go program contend can read.
type NotGoError struct {
	PID int
	Why string
}

func (e *NotGoError) Error() string {
	return fmt.Sprintf("process %d is not a Go program: %s", e.PID, e.Why)
}

// UnsupportedError reports a process that is of a kind contend cannot observe.
type UnsupportedError struct {
	PID int
	Why string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("process %d cannot be observed: %s", e.PID, e.Why)
}

// explain turns the error of reading something of a process into one of the
// package's own.
func explain(pid int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ESRCH), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("process %d: %w", pid, ErrExited)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d: %w: %s", pid, ErrPermission, remedy(os.Geteuid(), hasPtrace()))
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// remedy says what lets a process be read, to one that may not.
func remedy(uid int, ptrace bool) string {
	switch {
	case ptrace:
		return "CAP_SYS_PTRACE is held, but a security module (as Yama, AppArmor, SELinux) or another user namespace shields it"
	case uid == 0:
		return "this is root without CAP_SYS_PTRACE, as in a container: add that capability"
	}
	return "run as root, or with CAP_SYS_PTRACE for another user's process"
}

// hasPtrace reports whether CAP_SYS_PTRACE is effective in this process.
func hasPtrace() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
