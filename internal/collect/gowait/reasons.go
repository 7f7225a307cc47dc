package gowait

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"contend/bpf"
	"contend/internal/collect/target"
	"contend/internal/recording"
)

// reasons are the runtime's wait reasons by number, as this target spells them.
// The numbers moved in patch releases; the strings did not.
type reasons []string

// Bounds of runtime.waitReasonStrings: 47 entries in Go 1.27, the longest of 29
// bytes; a reason is one byte.
const (
	maxReasons   = 256
	maxReasonLen = 64
	reasonMark   = "GC assist marking" // the first that is not empty, in all versions
)

// findReasons reads runtime.waitReasonStrings out of the target's memory: an
// array of string headers whose first is empty and whose second is reasonMark. In
// the file, a position-independent target has no pointers there.
func findReasons(p *target.Process, f *elf.File) (reasons, error) {
	for _, seg := range writable(f) {
		data := make([]byte, seg.Filesz)
		if err := p.ReadMemory(seg.Vaddr+p.Bias, data); err != nil {
			return nil, err
		}
		if r := scanReasons(data, p.ReadMemory); r != nil {
			return r, nil
		}
	}
	return nil, errors.New("the target's memory has no table of wait reasons")
}

// writable are the segments with the program's variables.
func writable(f *elf.File) []*elf.Prog {
	var segs []*elf.Prog
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W != 0 {
			segs = append(segs, p)
		}
	}
	return segs
}

const stringHeader = 16 // pointer and length

// scanReasons finds the table in the variables' memory; read reads other memory.
func scanReasons(data []byte, read func(addr uint64, buf []byte) error) reasons {
	for off := 0; off+2*stringHeader <= len(data); off += 8 {
		if word(data, off) != 0 || word(data, off+8) != 0 || word(data, off+24) != uint64(len(reasonMark)) {
			continue
		}
		if r := readStrings(data[off:], read); len(r) > 1 && r[1] == reasonMark {
			return r
		}
	}
	return nil
}

// readStrings reads string headers until one is not a short readable string.
func readStrings(data []byte, read func(addr uint64, buf []byte) error) reasons {
	r := reasons{""}
	for off := stringHeader; off+stringHeader <= len(data) && len(r) < maxReasons; off += stringHeader {
		ptr, n := word(data, off), word(data, off+8)
		if ptr == 0 || n == 0 || n > maxReasonLen {
			break
		}
		s := make([]byte, n)
		if read(ptr, s) != nil || bytes.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) {
			break
		}
		r = append(r, string(s))
	}
	return r
}

func (r reasons) name(i int) string {
	if i < len(r) {
		return r[i]
	}
	return fmt.Sprintf("wait reason %d", i)
}

// reasonClasses gives the class of a reason by how it begins. Reasons that are
// missing, of later versions, are of the class unknown.
var reasonClasses = []struct{ prefix, class string }{
	{"chan ", recording.ClassChannel},
	{"select", recording.ClassSelect},
	{"sync.Cond.Wait", recording.ClassCond},
	{"IO wait", recording.ClassIO},
	{"sleep", recording.ClassSleep},
	{"GC ", recording.ClassRuntime},
	{"wait for GC cycle", recording.ClassRuntime},
	{"garbage collection", recording.ClassRuntime},
	{"finalizer wait", recording.ClassRuntime},
	{"cleanup wait", recording.ClassRuntime},
	{"force gc (idle)", recording.ClassRuntime},
	{"GOMAXPROCS updater (idle)", recording.ClassRuntime},
	{"trace reader (blocked)", recording.ClassRuntime},
	{"stopping the world", recording.ClassRuntime},
	{"dumping heap", recording.ClassRuntime},
	{"debug call", recording.ClassRuntime},
	{"panicwait", recording.ClassRuntime},
	{"synctest.", recording.ClassRuntime},
}

// kind is the kind of wait of a reason that the parks' probes see.
func (r reasons) kind(i int) kind {
	name := r.name(i)
	for _, c := range reasonClasses {
		if strings.HasPrefix(name, c.prefix) {
			return kind{name, c.class, nil}
		}
	}
	return kind{name, recording.ClassUnknown, nil}
}

// semaphore reports a reason of semacquire1: the probes of semaphores have it.
func semaphore(reason string) bool {
	for _, prefix := range []string{"semacquire", "sync.Mutex.", "sync.RWMutex.", "sync.WaitGroup."} {
		if strings.HasPrefix(reason, prefix) {
			return true
		}
	}
	return false
}

// probeKinds says what each number means to the probes.
func (r reasons) probeKinds() (kinds [maxReasons]uint8) {
	for i, name := range r {
		switch {
		case semaphore(name),
			name == "coroutine", // iter.Pull switches from one to the other: nobody waits
			name == "preempted": // no park: it is made ready without having waited for anything
			kinds[i] = uint8(bpf.GoparksReasonKindREASON_OTHER)
		case name == "GC worker (idle)", name == "GC worker (active)", name == "trace reader (blocked)":
			kinds[i] = uint8(bpf.GoparksReasonKindREASON_RUN) // src/runtime/proc.go, findRunnable
		}
	}
	return kinds
}
