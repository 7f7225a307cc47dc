package symbolize

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"io"
)

// ReadBuildID returns the GNU build ID in lower-case hex, the form pprof knows,
// or else the Go build ID as the linker wrote it, which always holds a slash
// ("" where the binary has neither). Go's linker writes both since Go 1.24.
func ReadBuildID(f *elf.File) string {
	const maxNotes = 64 << 10 // both are under 200 bytes
	goID := ""
	read := func(r io.Reader) (gnuID string) {
		data, err := io.ReadAll(io.LimitReader(r, maxNotes))
		if err != nil {
			return "" // a broken note is no note
		}
		gnuID, id := buildIDs(data)
		goID = max(goID, id)
		return gnuID
	}
	for _, s := range f.Sections { // Go's linker puts only its own note in the program headers
		if s.Type == elf.SHT_NOTE && s.Flags&elf.SHF_COMPRESSED == 0 {
			if id := read(s.Open()); id != "" {
				return id
			}
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_NOTE {
			if id := read(p.Open()); id != "" {
				return id
			}
		}
	}
	return goID
}

// buildIDs reads a sequence of ELF notes.
func buildIDs(data []byte) (gnuID, goID string) {
	const (
		gnuBuildID = 3 // NT_GNU_BUILD_ID
		goBuildID  = 4 // cmd/link: ELF_NOTE_GOBUILDID_TAG
	)
	for len(data) >= 12 {
		nameSize := uint64(binary.LittleEndian.Uint32(data))
		descSize := uint64(binary.LittleEndian.Uint32(data[4:]))
		kind := binary.LittleEndian.Uint32(data[8:])
		desc := 12 + (nameSize+3)&^3
		next := desc + (descSize+3)&^3
		if next > uint64(len(data)) {
			break
		}
		value := data[desc : desc+descSize]
		switch name := string(data[12 : 12+nameSize]); {
		case name == "GNU\x00" && kind == gnuBuildID:
			gnuID = hex.EncodeToString(value)
		case name == "Go\x00\x00" && kind == goBuildID:
			goID = string(value)
		}
		data = data[next:]
	}
	return gnuID, goID
}
