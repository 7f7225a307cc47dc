package capability

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// Version is a kernel release, major and minor.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Less reports whether v came before w.
func (v Version) Less(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// parseVersion reads a release as uname prints it: "6.1.0-18-amd64".
func parseVersion(s string) (Version, error) {
	major, rest, ok := strings.Cut(strings.TrimSpace(s), ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(rest)
	if !ok || err != nil || err2 != nil || a < 0 {
		return Version{}, fmt.Errorf("kernel release %q is not understood", strings.TrimSpace(s))
	}
	return Version{a, b}, nil
}

func (h host) read(path string) (string, error) {
	b, err := fs.ReadFile(h.root, path)
	return strings.TrimSpace(string(b)), err
}

func (h host) version() (Version, error) {
	s, err := h.read("proc/sys/kernel/osrelease")
	if err != nil {
		return Version{}, err
	}
	return parseVersion(s)
}

func (h host) kernel() Check {
	const name = "kernel"
	v, err := h.version()
	if err != nil {
		return Check{name, Unknown, firstLine(err), ""}
	}
	release, _ := h.read("proc/sys/kernel/osrelease")
	if v.Less(MinKernel) {
		return Check{name, Missing, "Linux " + release, fmt.Sprintf("goroutine waits and offcpu need Linux %v or later; --pprof works on any", MinKernel)}
	}
	return Check{Name: name, State: OK, Detail: fmt.Sprintf("Linux %s (least: %v)", release, MinKernel)}
}

func (h host) btf() Check {
	const name = "kernel BTF"
	if _, err := fs.Stat(h.root, "sys/kernel/btf/vmlinux"); err != nil {
		return Check{name, Missing, "no /sys/kernel/btf/vmlinux: offcpu is left out", "needs a kernel built with CONFIG_DEBUG_INFO_BTF=y"}
	}
	return Check{Name: name, State: OK, Detail: "/sys/kernel/btf/vmlinux"}
}

// lockdown judges the mode in brackets: "none [integrity] confidentiality".
func (h host) lockdown() Check {
	const name = "lockdown"
	s, err := h.read("sys/kernel/security/lockdown")
	if errors.Is(err, fs.ErrNotExist) {
		return Check{Name: name, State: OK, Detail: "none: the kernel has no lockdown, or securityfs is not mounted"}
	}
	if err != nil {
		return Check{name, Unknown, firstLine(err), ""}
	}
	_, mode, _ := strings.Cut(s, "[")
	mode, _, ok := strings.Cut(mode, "]")
	switch {
	case !ok:
		return Check{name, Unknown, fmt.Sprintf("%q is not understood", firstLine(errors.New(s))), ""}
	case mode == "confidentiality":
		return Check{name, Missing, "confidentiality: BPF programs may not read memory", "boot without lockdown=confidentiality (integrity is fine)"}
	}
	return Check{Name: name, State: OK, Detail: mode}
}

// A capability by its bit in /proc/PID/status (include/uapi/linux/capability.h).
type capability struct {
	bit  uint
	name string
	use  string
	must bool // nothing but the endpoint works without
}

var (
	capBPF         = capability{39, "CAP_BPF", "loading programs", true}
	capPerfmon     = capability{38, "CAP_PERFMON", "attaching them and reading memory", true}
	capSysPtrace   = capability{19, "CAP_SYS_PTRACE", "processes of other users", false}
	capSyslog      = capability{34, "CAP_SYSLOG", "names of kernel functions", false}
	capSysResource = capability{24, "CAP_SYS_RESOURCE", "locked memory before Linux 5.11", false}
	capSysAdmin    = capability{21, "CAP_SYS_ADMIN", "", false}
)

const privilegeRemedy = "run as root, or give the binary CAP_BPF and CAP_PERFMON: setcap cap_bpf,cap_perfmon+ep"

func (h host) capability(c capability) Check {
	have, err := h.has(c)
	switch {
	case err != nil:
		return Check{c.name, Unknown, firstLine(err), ""}
	case have:
		return Check{Name: c.name, State: OK, Detail: "for " + c.use}
	case c.must:
		return Check{c.name, Missing, "for " + c.use, privilegeRemedy}
	}
	return Check{Name: c.name, State: Info, Detail: "not held; for " + c.use}
}

// has reports whether contend holds a capability where the kernel asks for it:
// in the initial user namespace. CAP_SYS_ADMIN includes CAP_BPF, CAP_PERFMON
// and CAP_SYSLOG (include/linux/capability.h: bpf_capable, perfmon_capable).
func (h host) has(c capability) (bool, error) {
	status, err := fs.ReadFile(h.root, "proc/self/status")
	if err != nil {
		return false, err
	}
	set, err := parseCapEff(bytes.NewReader(status))
	if err != nil {
		return false, err
	}
	uidMap, err := h.read("proc/self/uid_map")
	if err == nil && !isInitialUserNS(uidMap) {
		return false, nil // as root of a container: it counts for nothing outside
	}
	have := set>>c.bit&1 == 1
	if c == capBPF || c == capPerfmon || c == capSyslog {
		have = have || set>>capSysAdmin.bit&1 == 1
	}
	return have, nil
}

// isInitialUserNS recognises the map of all ids onto themselves.
func isInitialUserNS(uidMap string) bool {
	f := strings.Fields(uidMap)
	return len(f) == 3 && f[0] == "0" && f[1] == "0" && f[2] == "4294967295"
}

// parseCapEff finds the effective capabilities in /proc/PID/status.
func parseCapEff(r io.Reader) (uint64, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(v), 16, 64)
		}
	}
	return 0, errors.Join(errors.New("no CapEff in /proc/self/status"), lines.Err())
}

// kernelSymbols looks whether addresses show: kptr_restrict, perf_event_paranoid
// and CAP_SYSLOG together decide (kernel/kallsyms.c).
func (h host) kernelSymbols() Check {
	const name = "kernel symbols"
	f, err := h.root.Open("proc/kallsyms")
	if err != nil {
		return Check{name, Unknown, firstLine(err), ""}
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(io.LimitReader(f, 256), 256).ReadString('\n')
	addr, _, _ := strings.Cut(line, " ")
	n, perr := strconv.ParseUint(addr, 16, 64)
	switch {
	case err != nil || perr != nil:
		return Check{name, Unknown, "/proc/kallsyms is not understood", ""}
	case n == 0:
		return Check{name, Missing, "hidden: kernel frames will read [kernel]", "add CAP_SYSLOG, or set kernel.kptr_restrict=0"}
	}
	return Check{Name: name, State: OK, Detail: "readable"}
}

func (h host) memlock() Check {
	const name = "RLIMIT_MEMLOCK"
	detail := "not asked for since Linux 5.11"
	if s, err := h.read("proc/self/limits"); err == nil {
		for line := range strings.Lines(s) {
			if v, ok := strings.CutPrefix(line, "Max locked memory"); ok {
				if f := strings.Fields(v); len(f) > 0 {
					detail = f[0] + "; " + detail
				}
			}
		}
	}
	return Check{Name: name, State: Info, Detail: detail}
}

func (h host) sysctl(name string) Check {
	s, err := h.read("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return Check{Name: name, State: Info, Detail: "absent"}
	}
	return Check{Name: name, State: Info, Detail: firstLine(errors.New(s))}
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}
