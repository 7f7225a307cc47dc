package target

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotFound reports a PID that no process has.
	ErrNotFound = errors.New("no such process")
	// ErrExited reports a process that has exited, or exited while it was read.
	ErrExited = errors.New("the process has exited")
	// ErrPermission reports a process of another user, or one shielded from
	// tracing.
	ErrPermission = errors.New("permission denied: run as root, or with CAP_SYS_PTRACE for another user's process")
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
		return fmt.Errorf("process %d: %w", pid, ErrPermission)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}
