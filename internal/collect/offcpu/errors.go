package offcpu

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MinKernel is the first release that has all this package needs: task storage
// for tracing programs (5.12), bpf_task_pt_regs (5.15) and bpf_loop (5.17).
const MinKernel = "5.17"

// Reasons for which a kernel or its privileges do not allow the collector.
var (
	ErrNoBTF     = errors.New("the kernel has no type information (BTF)")
	ErrPrivilege = errors.New("permission denied")
	ErrKernel    = errors.New("the kernel lacks a feature")
)

// UnsupportedError says that this host cannot run the collector: leave it out.
type UnsupportedError struct {
	Reason error // one of the above
	Remedy string
	Err    error // what the kernel or the loader said; not part of the message
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("offcpu: %v: %s", e.Reason, e.Remedy)
}

func (e *UnsupportedError) Unwrap() []error { return []error{e.Reason, e.Err} }

func noBTF(err error) error {
	return &UnsupportedError{ErrNoBTF, "it needs a kernel with /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF=y)", err}
}

// explainLoad tells a refusal that the user can act upon from a defect. The
// library's own text for EPERM blames RLIMIT_MEMLOCK, which has no part in it
// since Linux 5.11.
func explainLoad(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES) && !isVerifier(err):
		return &UnsupportedError{ErrPrivilege, "run as root, or with CAP_BPF and CAP_PERFMON", err}
	case errors.Is(err, ebpf.ErrNotSupported):
		return &UnsupportedError{ErrKernel, "it needs Linux " + MinKernel + " or later with BTF", err}
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("offcpu: loading the programs: %s", first)
}

func isVerifier(err error) bool {
	var ve *ebpf.VerifierError
	return errors.As(err, &ve)
}
