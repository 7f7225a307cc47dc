package symbolize

import (
	"debug/elf"

	"github.com/google/pprof/profile"
)

// Interner turns run-time addresses into the locations of one profile, each once.
// It is not safe for concurrent use.
type Interner struct {
	profile   *profile.Profile
	binary    *Binary
	bias      uint64
	native    *Native // may be nil
	mappings  []*profile.Mapping
	locations map[locationKey]location
	functions map[functionKey]*profile.Function
	named     map[functionKey]*profile.Location // of no address: marks and kernel frames
}

type locationKey struct {
	addr       uint64
	underPanic bool // called a panic function: a wrapper is then shown
}

// location is nil in an address of nothing but wrappers.
type location struct {
	*profile.Location
	outermost string // symbol of the function whose frame it is
}

// A function's identity is that of runtime/pprof's: two with one name may come
// from different files (init functions, closures of generated code).
type functionKey struct {
	symbol, file string
	startLine    int
}

// NewInterner adds to p, which must have no locations yet. bias is what the
// loader added to b's virtual addresses.
func NewInterner(p *profile.Profile, b *Binary, bias uint64) *Interner {
	return &Interner{
		profile: p, binary: b, bias: bias,
		mappings:  addMappings(p, b, bias),
		locations: make(map[locationKey]location),
		functions: make(map[functionKey]*profile.Function),
		named:     make(map[functionKey]*profile.Location),
	}
}

// UseNative has functions outside the Go code named, too.
func (in *Interner) UseNative(n *Native) { in.native = n }

// addMappings describes the binary's code to pprof. It says that all is
// symbolized, so that pprof does not look for the file.
func addMappings(p *profile.Profile, b *Binary, bias uint64) []*profile.Mapping {
	first := len(p.Mapping)
	for _, seg := range b.image.loads {
		if seg.Flags&elf.PF_X == 0 {
			continue
		}
		p.Mapping = append(p.Mapping, &profile.Mapping{
			ID:    uint64(len(p.Mapping) + 1),
			Start: seg.Vaddr + bias, Limit: seg.Vaddr + seg.Memsz + bias, Offset: seg.Off,
			File: b.name, BuildID: b.buildID,
			HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true,
		})
	}
	return p.Mapping[first:]
}

// Stack returns the locations of a stack of run-time addresses, leaf first. All
// are return addresses, but for the leaf where leafIsReturn is false: then it is
// of the instruction itself. As in the runtime's own profiles, wrappers and the
// root runtime.goexit are left out. Addresses outside the Go code that nothing names
// become "[unknown]", or what they are in, as "[libc.so.6]", once for each run of them.
func (in *Interner) Stack(pcs []uint64, leafIsReturn bool) []*profile.Location {
	stack := make([]*profile.Location, 0, len(pcs))
	callee := ""
	for i, pc := range pcs {
		// sigpanic is entered as if the faulting instruction had called it.
		if (i > 0 || leafIsReturn) && callee != "runtime.sigpanic" {
			pc--
		}
		loc := in.at(pc, callee)
		callee = loc.outermost
		switch {
		case loc.Location == nil, callee == "runtime.goexit" && i == len(pcs)-1:
		case loc.Address == 0 && len(stack) > 0 && stack[len(stack)-1] == loc.Location: // [unknown] again
		default:
			stack = append(stack, loc.Location)
		}
	}
	return stack
}

func (in *Interner) at(pc uint64, callee string) location {
	key := locationKey{pc, isPanic(callee)}
	loc, ok := in.locations[key]
	if !ok {
		loc = in.locate(pc, callee)
		in.locations[key] = loc
	}
	return loc
}

func (in *Interner) locate(pc uint64, callee string) location {
	frames := in.binary.allFrames(pc - in.bias)
	if frames == nil {
		return location{Location: in.outside(pc)}
	}
	found := location{outermost: frames[len(frames)-1].symbol}
	frames = dropWrappers(frames, callee)
	if len(frames) == 0 {
		return found
	}
	lines := make([]profile.Line, len(frames))
	for i, f := range frames {
		key := functionKey{f.symbol, f.File, f.StartLine}
		// The symbol, type arguments and all, as in the runtime's own profiles.
		lines[i] = profile.Line{Function: in.function(key, f.symbol), Line: int64(f.Line)}
	}
	found.Location = in.add(&profile.Location{Address: pc, Mapping: in.mapping(pc), Line: lines})
	return found
}

// outside returns the location of an address that is not in the Go code.
func (in *Interner) outside(pc uint64) *profile.Location {
	n := in.native.at(pc)
	if n.symbol == "" {
		return in.Mark(n.name)
	}
	f := in.function(functionKey{symbol: n.symbol, file: n.file}, n.name)
	return in.add(&profile.Location{Address: pc, Mapping: in.mapping(pc), Line: []profile.Line{{Function: f}}})
}

// Mark returns the location of a synthetic frame, such as "[truncated]".
func (in *Interner) Mark(name string) *profile.Location {
	return in.nameOnly(functionKey{symbol: name})
}

// Kernel returns the location of a kernel function.
func (in *Interner) Kernel(name string) *profile.Location {
	return in.nameOnly(functionKey{symbol: name, file: "kernel"})
}

func (in *Interner) nameOnly(key functionKey) *profile.Location {
	loc, ok := in.named[key]
	if !ok {
		loc = in.add(&profile.Location{Line: []profile.Line{{Function: in.function(key, key.symbol)}}})
		in.named[key] = loc
	}
	return loc
}

func (in *Interner) add(loc *profile.Location) *profile.Location {
	loc.ID = uint64(len(in.profile.Location) + 1)
	in.profile.Location = append(in.profile.Location, loc)
	return loc
}

func (in *Interner) function(key functionKey, name string) *profile.Function {
	f, ok := in.functions[key]
	if !ok {
		f = &profile.Function{
			ID: uint64(len(in.profile.Function) + 1), Name: name, SystemName: key.symbol,
			Filename: key.file, StartLine: int64(key.startLine),
		}
		in.profile.Function = append(in.profile.Function, f)
		in.functions[key] = f
	}
	return f
}

func (in *Interner) mapping(pc uint64) *profile.Mapping {
	for _, m := range in.mappings {
		if pc >= m.Start && pc < m.Limit {
			return m
		}
	}
	return nil
}
