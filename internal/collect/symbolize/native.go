package symbolize

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Native names the functions of a process that are not Go's: C and C++ of the
// binary itself, shared libraries, the vDSO. It knows what was mapped when it was
// opened; the files are read when an address in them is asked for.
type Native struct {
	pid    int
	maps   []nativeMap
	images map[uint64]*nativeImage // by the mapping's start
}

// nativeMap is an executable mapping.
type nativeMap struct {
	start, end, offset uint64
	path               string
}

type nativeImage struct {
	loads  []elf.ProgHeader
	tables []*Symbols
	whole  bool // addresses are as in memory, from the mapping's start
	close  func() error
}

// maxMaps bounds the mappings that are kept: a process has a few per library.
const maxMaps = 4096

// OpenNative reads what is mapped into a process.
func OpenNative(pid int) (*Native, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n := &Native{pid: pid, images: make(map[uint64]*nativeImage)}
	n.maps, err = parseNativeMaps(f)
	return n, err
}

// parseNativeMaps reads the executable mappings (proc_pid_maps(5)).
func parseNativeMaps(r io.Reader) ([]nativeMap, error) {
	var maps []nativeMap
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<10) // a path of PATH_MAX bytes, each escaped
	for lines.Scan() && len(maps) < maxMaps {
		var m nativeMap
		var flags, device string
		var inode uint64
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &m.start, &m.end, &flags, &m.offset, &device, &inode); err != nil {
			return nil, fmt.Errorf("maps: %q: %w", lines.Text(), err)
		}
		if !strings.Contains(flags, "x") || m.start >= m.end {
			continue
		}
		if fields := strings.SplitN(lines.Text(), " ", 6); len(fields) == 6 {
			m.path = strings.TrimLeft(fields[5], " ")
		}
		maps = append(maps, m)
	}
	return maps, lines.Err()
}

// Close closes the files.
func (n *Native) Close() error {
	if n == nil {
		return nil
	}
	var errs []error
	for _, m := range n.images {
		if m.close != nil {
			errs = append(errs, m.close())
		}
	}
	n.images = nil
	return errors.Join(errs...)
}

// nativeName is a function outside the Go code; or, where that is not known, a mark
// that says what the address is in, as "[libc.so.6]".
type nativeName struct {
	symbol, name, file string
}

func (n *Native) at(addr uint64) nativeName {
	if n == nil {
		return nativeName{name: "[unknown]"}
	}
	for _, m := range n.maps {
		if addr < m.start || addr >= m.end {
			continue
		}
		file := path.Base(strings.TrimSuffix(m.path, " (deleted)"))
		switch {
		case m.path == "":
			return nativeName{name: "[code without a file]"}
		case strings.HasPrefix(m.path, "["): // [vdso], [vsyscall]
			file = strings.Trim(m.path, "[]")
		}
		if symbol := n.image(m).symbol(m, addr); symbol != "" {
			return nativeName{symbol: symbol, name: readable(symbol), file: file}
		}
		return nativeName{name: "[" + file + "]"}
	}
	return nativeName{name: "[unknown]"} // a frame pointer that was none
}

// readable demangles C++ and Rust names, without parameters as pprof shows them, and
// takes off what compilers append to copies of a function.
func readable(symbol string) string {
	if name, err := demangle.ToString(symbol, demangle.NoParams, demangle.NoEnclosingParams, demangle.NoTemplateParams, demangle.NoClones); err == nil {
		return name
	}
	name, _, _ := strings.Cut(symbol, ".")
	name, _, _ = strings.Cut(name, "@")
	return name
}

func (n *Native) image(m nativeMap) *nativeImage {
	if image, ok := n.images[m.start]; ok {
		return image
	}
	image, err := n.open(m)
	if err != nil {
		image = &nativeImage{} // the target or the file is gone: only its name is known
	}
	n.images[m.start] = image
	return image
}

// maxVDSO bounds the vDSO, two to four pages.
const maxVDSO = 64 << 10

func (n *Native) open(m nativeMap) (*nativeImage, error) {
	if m.path == "[vdso]" {
		return n.openVDSO(m)
	}
	// Through the process's own root: it may be in another mount namespace.
	file, err := os.Open(fmt.Sprintf("/proc/%d/root%s", n.pid, m.path))
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no regular file", m.path), err, file.Close())
	}
	image, err := newNativeImage(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	image.close = file.Close
	return image, nil
}

func (n *Native) openVDSO(m nativeMap) (*nativeImage, error) {
	if m.end-m.start > maxVDSO {
		return nil, fmt.Errorf("the vDSO has %d bytes", m.end-m.start)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", n.pid))
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	code := make([]byte, m.end-m.start)
	if _, err := mem.ReadAt(code, int64(m.start)); err != nil {
		return nil, err
	}
	image, err := newNativeImage(bytes.NewReader(code))
	if err != nil {
		return nil, err
	}
	image.whole = true
	return image, nil
}

func newNativeImage(r io.ReaderAt) (*nativeImage, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("a %v file", f.Class)
	}
	m := &nativeImage{}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			m.loads = append(m.loads, p.ProgHeader)
		}
	}
	for _, table := range []string{".symtab", ".dynsym"} {
		m.tables = append(m.tables, ReadSymbols(f, table, elf.STT_FUNC, elf.SHF_EXECINSTR))
	}
	return m, nil
}

// symbol names the function at an address of a mapping, "" if it has none.
func (m *nativeImage) symbol(at nativeMap, addr uint64) string {
	off := addr - at.start + at.offset
	vaddr, ok := addr-at.start, m.whole
	for _, p := range m.loads {
		if !m.whole && off >= p.Off && off-p.Off < p.Filesz {
			vaddr, ok = off-p.Off+p.Vaddr, true
		}
	}
	if !ok {
		return ""
	}
	for _, t := range m.tables {
		if s, ok := t.At(vaddr); ok {
			return t.Name(s)
		}
	}
	return ""
}
