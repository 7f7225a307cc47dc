// Package symbolize turns the addresses of a Go binary into functions, files,
// lines and inlined calls, and finds in its code the instructions to probe.
//
// It reads the tables the runtime itself uses for tracebacks, which stripping
// (-ldflags '-s -w') leaves in place. It is meant for linux/amd64 binaries of
// Go 1.20 to 1.27 and refuses what does not hold together.
package symbolize

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Binary is an open Go executable. Its methods may be called concurrently.
//
// The pclntab is held in memory (a fifth to a quarter of a stripped binary);
// all else is read when asked for. It is copied, not mapped: a file that is
// overwritten while open gives an error instead of a SIGBUS.
type Binary struct {
	close     func() error
	image     *image
	table     *pclntab
	tableAddr uint64
	layout    layout
	module    module

	name               string // base name of the file
	goVersion, buildID string
	modTime            time.Time
}

// Open reads the symbol tables of a Go executable. For a live process pass
// /proc/PID/exe, which also names a binary that was replaced or deleted.
func Open(path string) (*Binary, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := newBinary(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	b.close = file.Close
	if info, err := file.Stat(); err == nil {
		b.modTime = info.ModTime()
	}
	b.name = baseName(path)
	return b, nil
}

func newBinary(r io.ReaderAt) (*Binary, error) {
	info, err := buildinfo.Read(r)
	if err != nil {
		return nil, fmt.Errorf("no Go build information: %w", err)
	}
	return newBinaryVersion(r, info.GoVersion)
}

// newBinaryVersion reads a binary of a given Go version.
func newBinaryVersion(r io.ReaderAt, goVersion string) (*Binary, error) {
	lay, err := layoutFor(goVersion)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	m, err := newImage(r, f)
	if err != nil {
		return nil, err
	}
	b := &Binary{image: m, layout: lay, goVersion: goVersion, buildID: ReadBuildID(f)}
	if b.table, b.tableAddr, err = findPclntab(m, f); err != nil {
		return nil, err
	}
	if b.module, err = findModule(m, b.table, b.tableAddr, lay); err != nil {
		return nil, err
	}
	m.rela = nil // only findModule needs the relocations
	return b, nil
}

// Close releases the file. Frames that need no inline tree still work after.
func (b *Binary) Close() error {
	if b.close == nil {
		return nil
	}
	err := b.close()
	b.close = nil
	return err
}

// GoVersion is the version of the toolchain, as in "go1.26.8".
func (b *Binary) GoVersion() string { return b.goVersion }

// BuildID identifies the build: see [ReadBuildID].
func (b *Binary) BuildID() string { return b.buildID }

// ModTime is when the file was written, zero if that is not known.
func (b *Binary) ModTime() time.Time { return b.modTime }

// Offset turns the virtual address of an instruction into its offset in the
// file, which is what uprobes are attached by.
func (b *Binary) Offset(addr uint64) (uint64, error) {
	p, ok := b.image.segment(addr)
	if !ok || p.Flags&elf.PF_X == 0 {
		return 0, fmt.Errorf("address %#x is not in the binary's code", addr)
	}
	return p.Off + (addr - p.Vaddr), nil
}

// Code returns the instructions of f, up to the next function's entry: padding
// is included.
func (b *Binary) Code(f Func) ([]byte, error) {
	if f.End <= f.Entry {
		return nil, fmt.Errorf("%s: empty range %#x–%#x", f.Name, f.Entry, f.End)
	}
	return b.image.read(f.Entry, f.End-f.Entry)
}

// Types returns the runtime's type descriptors, with their names and what they hold
// once loaded, and the ELF virtual address of the first: offsets in them count from
// there. At most limit bytes are read.
func (b *Binary) Types(limit uint64) (data []byte, start uint64, err error) {
	m := b.module
	if m.types == 0 || m.types >= m.etypes || m.etypes-m.types > limit {
		return nil, 0, fmt.Errorf("type descriptors at %#x–%#x are none, or too many", m.types, m.etypes)
	}
	data, err = b.image.readLoaded(m.types, m.etypes-m.types)
	return data, m.types, err
}

// baseName names a file for people: of /proc/PID/exe, the file behind it.
func baseName(path string) string {
	if target, err := os.Readlink(path); err == nil && strings.HasPrefix(path, "/proc/") {
		path = strings.TrimSuffix(target, " (deleted)")
	}
	return filepath.Base(path)
}
