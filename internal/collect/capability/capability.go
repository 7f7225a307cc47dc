// Package capability says what this kernel, these privileges and a given target
// allow, and what to do about what they do not: the table of `contend doctor`,
// and the one-line errors before a recording.
//
// Facts come from /proc and /sys (through an fs.FS, so that all judgement runs
// on made-up trees too) and from asking the kernel to load tiny programs.
package capability

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
)

// State is the outcome of a check.
type State string

// States of a check.
const (
	OK      State = "ok"
	Missing State = "missing"
	Unknown State = "unknown" // it could not be found out
	Info    State = "info"    // worth knowing, never in the way by itself
)

// Check is one line of the table.
type Check struct {
	Name   string
	State  State
	Detail string // what was found
	Remedy string // what helps; "" unless something is missing or unknown
}

// The least kernels. Waits and offcpu walk stacks with bpf_loop (5.17), which is
// newer than all else they need: task storage for tracing programs is of 5.12,
// bpf_task_pt_regs of 5.15.
var (
	MinKernel      = Version{5, 17}
	MinUprobeMulti = Version{6, 10} // from 6.6 on it exists, but its PID filter lets one thread through only
)

// host is what judgement needs of the machine, replaceable in tests.
type host struct {
	root   fs.FS // the file system at /
	probes map[string]func() error
}

func thisHost() host {
	return host{root: os.DirFS("/"), probes: map[string]func() error{
		probeLoad:        func() error { return features.HaveProgramType(ebpf.Kprobe) },
		probeLoop:        func() error { return features.HaveProgramHelper(ebpf.Kprobe, asm.FnLoop) },
		probeTracing:     loadTracing,
		probeTaskStorage: func() error { return features.HaveMapType(ebpf.TaskStorage) },
		probeUprobeMulti: features.HaveBPFLinkUprobeMulti,
	}}
}

// Names of the probes that ask the kernel.
const (
	probeLoad        = "BPF programs"
	probeLoop        = "bpf_loop"
	probeTracing     = "tracing programs"
	probeTaskStorage = "task storage"
	probeUprobeMulti = "uprobe_multi"
)

// loadTracing loads the kind of program that offcpu is made of. (The library's own
// probe asks for another kind, without a GPL licence, which newer kernels refuse.)
func loadTracing() error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "sched_switch",
		License:      "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	return prog.Close()
}

// Host checks the kernel and contend's own privileges.
func Host() []Check { return thisHost().checks() }

func (h host) checks() []Check {
	return []Check{
		h.kernel(), h.btf(), h.lockdown(),
		h.capability(capBPF), h.capability(capPerfmon), h.capability(capSysPtrace),
		h.capability(capSyslog), h.capability(capSysResource),
		h.probe(probeLoad, "goroutine waits and offcpu cannot be recorded"),
		h.probe(probeLoop, "goroutine waits and offcpu cannot be recorded"),
		h.uprobeMulti(),
		h.probe(probeTracing, "offcpu cannot be recorded"),
		h.probe(probeTaskStorage, "offcpu cannot be recorded"),
		h.kernelSymbols(), h.memlock(),
		h.sysctl("kernel.kptr_restrict"), h.sysctl("kernel.perf_event_paranoid"), h.sysctl("kernel.unprivileged_bpf_disabled"),
	}
}

// probe asks the kernel whether it has a feature.
func (h host) probe(name, without string) Check {
	err := h.probes[name]()
	switch {
	case err == nil:
		return Check{Name: name, State: OK, Detail: "the kernel loads them"}
	case errors.Is(err, ebpf.ErrNotSupported):
		return Check{name, Missing, "the kernel has none: " + without, fmt.Sprintf("needs Linux %v or later", MinKernel)}
	case errors.Is(err, fs.ErrPermission):
		return Check{name, Unknown, "asking needs privileges", privilegeRemedy}
	}
	return Check{name, Unknown, firstLine(err), ""}
}

func (h host) uprobeMulti() Check {
	c := h.probe(probeUprobeMulti, "probes are attached one by one")
	v, err := h.version()
	switch {
	case c.State == OK && err == nil && v.Less(MinUprobeMulti):
		c = Check{Name: c.Name, State: Info, Detail: fmt.Sprintf("this is %v; before %v its PID filter drops threads: perf uprobes are used, slower to detach", v, MinUprobeMulti)}
	case c.State == Missing:
		c.State, c.Detail, c.Remedy = Info, "absent: perf uprobes are used, slower to detach", ""
	case c.State == OK:
		c.Detail = fmt.Sprintf("usable (with a PID filter since %v)", MinUprobeMulti)
	}
	return c
}
