// Package target finds and describes the process to observe: which binary it
// runs, built by which Go, loaded where, in which namespaces.
package target

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"contend/internal/collect/symbolize"
)

// Process describes a live Go process.
type Process struct {
	PID       int    // in contend's own PID namespace
	NSPID     int    // in the process's
	StartTime uint64 // clock ticks after boot: with PID and BootID, unique
	BootID    string

	Name string // base name of the executable
	Exe  string // "/proc/PID/exe": valid after the file was replaced or deleted
	UID  int    // the real user

	GoVersion     string // of the toolchain, as in "go1.26.8"
	Module        string // path of the main module, "" if none was recorded
	ModuleVersion string // "(devel)" for a build outside the module cache
	BuildID       string // see symbolize.ReadBuildID

	// The process's PID namespace, as bpf_get_ns_current_pid_tgid takes it. Dev
	// is in the kernel's own form, major<<20 | minor; stat(2) encodes minors
	// above 255 differently.
	PIDNSDev, PIDNSIno uint64

	// Bias is what the loader added to the ELF file's virtual addresses: 0
	// unless the executable is position-independent.
	Bias uint64
}

// Find describes the process with the given PID. Its errors are [ErrNotFound],
// [ErrExited] and [ErrPermission], wrapped, [*NotGoError] and
// [*UnsupportedError].
func Find(pid int) (*Process, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("PID %d: %w", pid, ErrNotFound)
	}
	p := &Process{PID: pid, Exe: procPath(pid, "exe")}
	if err := p.identify(); err != nil {
		return nil, err
	}
	if err := p.readExecutable(); err != nil {
		return nil, err
	}
	if !p.Alive() { // all of the above may be of the next process with this PID
		return nil, fmt.Errorf("process %d: %w", pid, ErrExited)
	}
	return p, nil
}

func procPath(pid int, name string) string {
	return fmt.Sprintf("/proc/%d/%s", pid, name)
}

// readProc parses a file of /proc/PID.
func readProc[T any](pid int, name string, parse func(io.Reader) (T, error)) (T, error) {
	f, err := os.Open(procPath(pid, name))
	if err != nil {
		var none T
		return none, err
	}
	defer f.Close()
	return parse(f)
}

// identify reads who the process is, whatever it runs.
func (p *Process) identify() error {
	st, err := readProc(p.PID, "stat", parseStat)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("PID %d: %w", p.PID, ErrNotFound)
	}
	if err != nil {
		return explain(p.PID, err)
	}
	switch {
	case st.exited():
		return fmt.Errorf("process %d: %w", p.PID, ErrExited)
	case st.kernel:
		return &NotGoError{p.PID, "it is a kernel thread"}
	}
	p.StartTime = st.startTicks
	who, err := readProc(p.PID, "status", parseStatus)
	if err != nil {
		return explain(p.PID, err)
	}
	if who.tgid != p.PID {
		return &UnsupportedError{p.PID, fmt.Sprintf("it is a thread of process %d; give that PID", who.tgid)}
	}
	p.NSPID, p.UID = who.nspid, who.uid
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("boot ID: %w", err)
	}
	p.BootID = strings.TrimSpace(string(boot))
	return p.readNamespace()
}

func (p *Process) readNamespace() error {
	var st unix.Stat_t
	if err := unix.Stat(procPath(p.PID, "ns/pid"), &st); err != nil {
		return explain(p.PID, err)
	}
	p.PIDNSDev = uint64(unix.Major(st.Dev))<<20 | uint64(unix.Minor(st.Dev))
	p.PIDNSIno = st.Ino
	return nil
}

// readExecutable describes the program and where it is loaded.
func (p *Process) readExecutable() error {
	link, err := os.Readlink(p.Exe)
	if err != nil {
		return explain(p.PID, err)
	}
	p.Name = filepath.Base(strings.TrimSuffix(link, " (deleted)"))
	file, err := os.Open(p.Exe)
	if err != nil {
		return explain(p.PID, err)
	}
	defer file.Close()

	f, err := elf.NewFile(file)
	if err != nil {
		return &NotGoError{p.PID, fmt.Sprintf("%s is no ELF file: %v", link, err)}
	}
	if err := checkMachine(p.PID, f.FileHeader, link); err != nil {
		return err
	}
	info, err := buildinfo.Read(file)
	if err != nil {
		return &NotGoError{p.PID, fmt.Sprintf("%s: %v", link, err)}
	}
	p.GoVersion, p.Module, p.ModuleVersion = info.GoVersion, info.Main.Path, info.Main.Version
	p.BuildID = symbolize.ReadBuildID(f)
	return p.readBias(f, file, link)
}

func checkMachine(pid int, h elf.FileHeader, path string) error {
	if h.Machine == elf.EM_X86_64 && h.Class == elf.ELFCLASS64 {
		return nil
	}
	return &UnsupportedError{pid, fmt.Sprintf("%s is a %d-bit %v binary; only linux/amd64 is supported",
		path, 32*int(h.Class), h.Machine)}
}

func (p *Process) readBias(f *elf.File, file *os.File, link string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return explain(p.PID, err)
	}
	maps, err := os.Open(procPath(p.PID, "maps"))
	if err != nil {
		return explain(p.PID, err)
	}
	defer maps.Close()
	p.Bias, err = loadBias(maps, f.Progs, func(m mapping) bool {
		return m.path == link || m.inode == st.Ino
	})
	return explain(p.PID, err)
}

// loadBias compares the executable's first code segment with the mapping of it.
// ours tells the mappings of the executable's file.
func loadBias(maps io.Reader, progs []*elf.Prog, ours func(mapping) bool) (uint64, error) {
	const page = 4096 // of amd64, the only architecture supported
	for _, s := range progs {
		if s.Type != elf.PT_LOAD || s.Flags&elf.PF_X == 0 {
			continue
		}
		bias, found := uint64(0), false
		err := parseMaps(maps, func(m mapping) bool {
			if m.exec && m.offset == s.Off&^(page-1) && ours(m) {
				bias, found = m.start-s.Vaddr&^(page-1), true
			}
			return !found
		})
		if err == nil && !found {
			// A process that exits loses its mappings first.
			err = fmt.Errorf("its code is not mapped: %w", ErrExited)
		}
		return bias, err
	}
	return 0, errors.New("the executable has no code segment")
}
