package capability

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf"

	"contend/internal/recording"

	"contend/internal/collect/livetest"
)

const (
	allCaps = "000001ffffffffff"
	noCaps  = "0000000000000000"
	ownCaps = "000000c000000000" // CAP_BPF and CAP_PERFMON
	admin   = "0000000000200000" // CAP_SYS_ADMIN
)

// made is a host that has everything; edits change or, with "", remove files.
func made(edits map[string]string) host {
	files := map[string]string{
		"proc/sys/kernel/osrelease":                 "6.18.1-1-amd64\n",
		"proc/sys/kernel/kptr_restrict":             "1\n",
		"proc/sys/kernel/perf_event_paranoid":       "2\n",
		"proc/sys/kernel/unprivileged_bpf_disabled": "2\n",
		"proc/self/status":                          "Name:\tcontend\nCapEff:\t" + allCaps + "\n",
		"proc/self/uid_map":                         "         0          0 4294967295\n",
		"proc/self/limits":                          "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         8388608              8388608              bytes\n",
		"proc/kallsyms":                             "ffffffff81000000 T _text\n",
		"sys/kernel/btf/vmlinux":                    "BTF",
		"sys/kernel/security/lockdown":              "none [integrity] confidentiality\n",
	}
	for name, content := range edits {
		files[name] = content
	}
	root := fstest.MapFS{}
	for name, content := range files {
		if content != "" {
			root[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	yes := func() error { return nil }
	return host{root: root, probes: map[string]func() error{
		probeLoad: yes, probeLoop: yes, probeTracing: yes, probeTaskStorage: yes, probeUprobeMulti: yes,
	}}
}

func caps(hex string) map[string]string {
	return map[string]string{"proc/self/status": "CapEff:\t" + hex + "\n"}
}

func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %q", name)
	return Check{}
}

func TestChecksOfMadeHosts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		edits  map[string]string
		check  string
		state  State
		detail string
	}{
		{"all there", nil, "kernel", OK, "6.18.1-1-amd64"},
		{"old kernel", map[string]string{"proc/sys/kernel/osrelease": "5.4.0-150-generic"}, "kernel", Missing, "5.4.0"},
		{"least kernel", map[string]string{"proc/sys/kernel/osrelease": "5.17.0"}, "kernel", OK, ""},
		{"odd release", map[string]string{"proc/sys/kernel/osrelease": "custom"}, "kernel", Unknown, "not understood"},
		{"no proc", map[string]string{"proc/sys/kernel/osrelease": ""}, "kernel", Unknown, ""},
		{"BTF", nil, "kernel BTF", OK, ""},
		{"no BTF", map[string]string{"sys/kernel/btf/vmlinux": ""}, "kernel BTF", Missing, "offcpu is left out"},
		{"integrity", nil, "lockdown", OK, "integrity"},
		{"confidentiality", map[string]string{"sys/kernel/security/lockdown": "none integrity [confidentiality]"}, "lockdown", Missing, ""},
		{"no lockdown", map[string]string{"sys/kernel/security/lockdown": ""}, "lockdown", OK, "none"},
		{"odd lockdown", map[string]string{"sys/kernel/security/lockdown": "none"}, "lockdown", Unknown, ""},
		{"root", nil, "CAP_BPF", OK, ""},
		{"nobody", caps(noCaps), "CAP_BPF", Missing, ""},
		{"nobody's ptrace", caps(noCaps), "CAP_SYS_PTRACE", Info, "not held"},
		{"two capabilities", caps(ownCaps), "CAP_PERFMON", OK, ""},
		{"admin has perfmon", caps(admin), "CAP_PERFMON", OK, ""},
		{"admin lacks ptrace", caps(admin), "CAP_SYS_PTRACE", Info, ""},
		{"container root", map[string]string{"proc/self/uid_map": "0 100000 65536"}, "CAP_BPF", Missing, ""},
		{"no status", map[string]string{"proc/self/status": ""}, "CAP_BPF", Unknown, ""},
		{"symbols", nil, "kernel symbols", OK, ""},
		{"hidden symbols", map[string]string{"proc/kallsyms": "0000000000000000 T _text\n"}, "kernel symbols", Missing, "[kernel]"},
		{"odd symbols", map[string]string{"proc/kallsyms": "?"}, "kernel symbols", Unknown, ""},
		{"memlock", nil, "RLIMIT_MEMLOCK", Info, "8388608; not asked for since Linux 5.11"},
		{"sysctl", nil, "kernel.perf_event_paranoid", Info, "2"},
		{"uprobe_multi", nil, "uprobe_multi", OK, "6.10"},
		{"early uprobe_multi", map[string]string{"proc/sys/kernel/osrelease": "6.8.0"}, "uprobe_multi", Info, "drops threads"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := find(t, made(tt.edits).checks(), tt.check)
			if c.State != tt.state || !strings.Contains(c.Detail, tt.detail) {
				t.Errorf("%+v, want %s with %q", c, tt.state, tt.detail)
			}
			if c.State == Missing && c.Remedy == "" {
				t.Errorf("%s is missing and nothing is said to help", c.Name)
			}
		})
	}
}

func TestProbesOfTheKernel(t *testing.T) {
	for _, tt := range []struct {
		err   error
		state State
	}{
		{nil, OK}, {ebpf.ErrNotSupported, Missing}, {os.ErrPermission, Unknown}, {errors.New("odd\nlog"), Unknown},
	} {
		h := made(nil)
		h.probes[probeTracing] = func() error { return tt.err }
		c := find(t, h.checks(), probeTracing)
		if c.State != tt.state || strings.Contains(c.Detail, "\n") {
			t.Errorf("%v: %+v, want %s", tt.err, c, tt.state)
		}
	}
}

func TestPreflight(t *testing.T) {
	noBTF := map[string]string{"sys/kernel/btf/vmlinux": ""}
	for _, tt := range []struct {
		name, collector string
		edits           map[string]string
		uid             int
		missing         string // check's name, "" for none
	}{
		{"all there", recording.OffCPU, nil, 0, ""},
		{"no BTF, offcpu", recording.OffCPU, noBTF, 0, "kernel BTF"},
		{"no BTF, waits", recording.Waits, noBTF, 0, ""},
		{"nobody, waits", recording.Waits, caps(noCaps), 0, "CAP_BPF"},
		{"nobody, endpoint", recording.Mutex, caps(noCaps), 0, ""},
		{"two capabilities, own process", recording.Waits, caps(ownCaps), 0, ""},
		{"two capabilities, another's", recording.Waits, caps(ownCaps), 1000, "target's user"},
		{"old kernel", recording.Waits, map[string]string{"proc/sys/kernel/osrelease": "4.18.0"}, 0, "kernel"},
		{"unknown is not in the way", recording.Waits, map[string]string{"proc/sys/kernel/osrelease": "x"}, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := made(tt.edits).preflight(tt.collector, tt.uid, 0)
			var m *MissingError
			switch {
			case tt.missing == "" && err != nil:
				t.Errorf("got %v, want nothing in the way", err)
			case tt.missing != "" && (!errors.As(err, &m) || m.Check.Name != tt.missing):
				t.Errorf("got %v, want %s", err, tt.missing)
			case err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), m.Check.Remedy)):
				t.Errorf("message %q: want one line with the remedy", err)
			}
		})
	}
}

func TestGoVersions(t *testing.T) {
	for v, want := range map[string]State{
		"go1.26": OK, "go1.26.8": OK, "go1.26.8 X:nodwarf5": OK, "go1.22.1": OK, "go1.27.3": OK,
		"go1.21.13": Missing, "go1.260": Missing, "devel": Missing,
	} {
		if c := goVersion(v, "/bin/sh"); c.State != want {
			t.Errorf("%s: %+v, want %s", v, c, want)
		}
	}
}

// On a machine that runs the other live tests, this one must say so.
func TestThisHost(t *testing.T) {
	livetest.RequireRoot(t)
	for _, c := range Host() {
		t.Logf("%-34s %-8s %s  %s", c.Name, c.State, c.Detail, c.Remedy)
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("needs a kernel with BTF")
	}
	for _, name := range []string{"kernel", "CAP_BPF", probeLoad, probeLoop, probeTracing, probeTaskStorage} {
		if c := find(t, Host(), name); c.State != OK {
			t.Errorf("%+v", c)
		}
	}
	if err := Preflight(recording.OffCPU, 1000); err != nil {
		t.Error(err)
	}
}

func TestTargets(t *testing.T) {
	if c := Target(1 << 30); len(c) != 1 || c[0].State != Missing {
		t.Errorf("no such process: %+v", c)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	program := `package main
import ("os"; "sync")
func main() {
	var mu sync.Mutex
	mu.Lock()
	os.Stdin.Read(make([]byte, 1))
}`
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ ldflags, symbols, dwarf string }{{"", "present", "present"}, {"-s -w", "stripped", "absent"}} {
		exe := filepath.Join(dir, "target"+tt.symbols)
		if out, err := exec.Command("go", "build", "-ldflags", tt.ldflags, "-o", exe, source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command(exe)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		checks := Target(cmd.Process.Pid)
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"target", "target's user", "probe points"} {
			if c := find(t, checks, name); c.State != OK {
				t.Errorf("%+v", c)
			}
		}
		if c := find(t, checks, "symbol table"); !strings.HasPrefix(c.Detail, tt.symbols) {
			t.Errorf("%+v, want %s", c, tt.symbols)
		}
		if c := find(t, checks, "DWARF"); !strings.HasPrefix(c.Detail, tt.dwarf) {
			t.Errorf("%+v, want %s", c, tt.dwarf)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	for _, s := range []string{"6.18.44-fc", "5.4", "6.", ".1", "4294967296.1", "6.1.0\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parseVersion(s)
		if err == nil && (v.Major < 0 || v.Minor < 0) {
			t.Errorf("%q: %v", s, v)
		}
	})
}

func FuzzParseCapEff(f *testing.F) {
	f.Add("Name:\tx\nCapEff:\t000001ffffffffff\n")
	f.Add("CapEff:\n")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := parseCapEff(strings.NewReader(s)); err != nil && v != 0 && !strings.Contains(s, "CapEff") {
			t.Errorf("%q: %x and %v", s, v, err)
		}
	})
}
