package capability

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"strings"

	"contend/internal/collect/golayout"
	"contend/internal/collect/gowait"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
)

// Target checks one process.
func Target(pid int) []Check {
	p, err := target.Find(pid)
	if err != nil {
		return []Check{{"target", Missing, firstLine(err), ""}}
	}
	checks := describe(p, thisHost())
	b, err := symbolize.Open(p.Exe)
	if err != nil {
		return append(checks, Check{"Go symbols", Missing, firstLine(err), "the binary's pclntab is needed; stripping keeps it"})
	}
	defer b.Close()
	return append(append(checks, symbols(p.Exe)...), probes(b))
}

func describe(p *target.Process, h host) []Check {
	process := Check{Name: "target", State: OK, Detail: fmt.Sprintf("%s, PID %d, %s", p.Name, p.PID, strings.TrimSpace(p.Module+" "+p.ModuleVersion))}
	return []Check{process, goVersion(p.GoVersion, p.Exe), h.owner(p.UID, os.Getuid()), h.pidNamespace(p)}
}

func goVersion(v, exe string) Check {
	const name = "Go version"
	l, err := golayout.For(v, exe)
	if err != nil {
		return Check{name, Missing, firstLine(err), fmt.Sprintf("goroutine waits need %s, or a build with DWARF; offcpu and --pprof work with others", golayout.Known)}
	}
	if l.Source == golayout.FromDWARF {
		return Check{Name: name, State: OK, Detail: v + ": offsets inside its runtime are read from its DWARF"}
	}
	return Check{Name: name, State: OK, Detail: v}
}

// owner judges whether the target's memory may be read.
func (h host) owner(uid, own int) Check {
	const name = "target's user"
	if uid == own {
		return Check{Name: name, State: OK, Detail: fmt.Sprintf("uid %d, contend's own", uid)}
	}
	have, err := h.has(capSysPtrace)
	switch {
	case err != nil:
		return Check{name, Unknown, firstLine(err), ""}
	case have:
		return Check{Name: name, State: OK, Detail: fmt.Sprintf("uid %d; CAP_SYS_PTRACE is held", uid)}
	}
	return Check{name, Missing, fmt.Sprintf("uid %d, another user's", uid), "run as root, or as that user, or add CAP_SYS_PTRACE"}
}

func (h host) pidNamespace(p *target.Process) Check {
	c := Check{Name: "PID namespace", State: Info, Detail: "contend's own"}
	if p.NSPID != p.PID {
		c.Detail = fmt.Sprintf("another: there it is PID %d", p.NSPID)
	}
	return c
}

// symbols says what the binary keeps besides the runtime's own tables.
func symbols(exe string) []Check {
	f, err := elf.Open(exe)
	if err != nil {
		return []Check{{"symbol table", Unknown, firstLine(err), ""}}
	}
	defer f.Close()
	table := Check{Name: "symbol table", State: Info, Detail: "present"}
	if _, err := f.Symbols(); errors.Is(err, elf.ErrNoSymbols) {
		table.Detail = "stripped: Go functions are named all the same, C functions are not"
	}
	dwarf := Check{Name: "DWARF", State: Info, Detail: "present"}
	if f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil {
		dwarf.Detail = "absent: offsets inside the runtime come from contend's own table"
	}
	return []Check{table, dwarf}
}

func probes(b *symbolize.Binary) Check {
	const name = "probe points"
	noRun, err := gowait.Probes(b)
	switch {
	case err != nil:
		return Check{name, Missing, firstLine(err), "goroutine waits cannot be recorded of this build; offcpu can"}
	case noRun != nil:
		return Check{name, OK, "found, but no run-queue time (" + firstLine(noRun) + ")", ""}
	}
	return Check{Name: name, State: OK, Detail: "all found"}
}
