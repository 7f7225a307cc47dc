package gowait

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"contend/internal/collect/target"
)

var (
	// ErrPrivilege reports a missing privilege.
	ErrPrivilege = errors.New("goroutine waits need CAP_BPF and CAP_PERFMON: run as root")
	// ErrKernel reports a kernel that cannot run the programs.
	ErrKernel = errors.New("goroutine waits need Linux 5.17 or later with uprobes (CONFIG_UPROBE_EVENTS)")
)

// TargetError reports a target whose waits cannot be measured.
type TargetError struct {
	Why string
}

func (e *TargetError) Error() string { return "goroutine waits: " + e.Why }

// refused reports an error for which another way of attaching may help.
func refused(err error) bool {
	return err != nil && !errors.Is(err, ErrPrivilege) && !errors.Is(err, ErrKernel) && !errors.Is(err, target.ErrExited)
}

// explain names the cause of a failure to load or attach. Libraries guess at
// RLIMIT_MEMLOCK, which Linux has not asked for since 5.11.
func explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: %w", doing, ErrPrivilege)
	case errors.Is(features.HaveProgramHelper(ebpf.Kprobe, asm.FnLoop), ebpf.ErrNotSupported):
		return fmt.Errorf("%s: %w", doing, ErrKernel)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
