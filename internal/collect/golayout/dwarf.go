package golayout

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// The structs that the fields are in.
const (
	structG        = "runtime.g"
	structStack    = "runtime.stack"
	structGobuf    = "runtime.gobuf"
	structM        = "runtime.m"
	structSudog    = "runtime.sudog"
	structRoot     = "runtime.semaRoot"
	structPollDesc = "runtime.pollDesc"
)

// fromDWARF reads the layout from the target's own DWARF; why says what keeps the
// table from being used.
func fromDWARF(version, exe, why string) (*Layout, error) {
	refuse := func(what string) error {
		return &UnknownError{fmt.Sprintf("the target was built with %q: %s, and %s", version, why, what)}
	}
	f, err := elf.Open(exe)
	if err != nil {
		var file *fs.PathError
		if errors.As(err, &file) {
			return nil, err
		}
		return nil, refuse("its file cannot be read: " + err.Error())
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return nil, refuse("its DWARF cannot be read: " + err.Error())
	}
	l, err := ReadDWARF(data)
	if err != nil {
		return nil, refuse("its DWARF does not tell where the runtime's fields are: " + err.Error())
	}
	return l, nil
}

// ReadDWARF reads the layout from debugging information.
func ReadDWARF(data *dwarf.Data) (*Layout, error) {
	r := fieldReader{structs: make(map[string]*dwarf.StructType)}
	if err := r.find(data, structG, structStack, structGobuf, structM, structSudog, structRoot, structPollDesc); err != nil {
		return nil, err
	}
	sched := r.at(structG, "sched")
	l := &Layout{
		StackHi: r.at(structG, "stack") + r.at(structStack, "hi"),
		GM:      r.at(structG, "m"),
		SchedSP: sched + r.at(structGobuf, "sp"), SchedPC: sched + r.at(structGobuf, "pc"),
		SchedG: sched + r.at(structGobuf, "g"), SchedBP: sched + r.at(structGobuf, "bp"),
		Atomicstatus: r.at(structG, "atomicstatus"), Goid: r.at(structG, "goid"),
		Schedlink: r.at(structG, "schedlink"), Waitsince: r.at(structG, "waitsince"),
		Waitreason: r.at(structG, "waitreason"), Lockedm: r.at(structG, "lockedm"), Waiting: r.at(structG, "waiting"),
		MG0: r.at(structM, "g0"), Curg: r.at(structM, "curg"), Lockedg: r.at(structM, "lockedg"),
		SudogNext: r.at(structSudog, "next"), SudogPrev: r.at(structSudog, "prev"),
		SudogElem: r.at(structSudog, "elem"), SudogWaitlink: r.at(structSudog, "waitlink"),
		RootTreap: r.at(structRoot, "treap"),
		PollRg:    r.at(structPollDesc, "rg"), PollWg: r.at(structPollDesc, "wg"),
		Source: FromDWARF,
	}
	if r.err != nil {
		return nil, r.err
	}
	l.SudogSize = uint32(r.structs[structSudog].ByteSize)
	// {vp, vu}: a pointer beside its address, which came with the use of g.waiting
	// for semaphores.
	elemType := r.field(structSudog, "elem").Type
	if named, ok := elemType.(*dwarf.TypedefType); ok {
		elemType = named.Type
	}
	if elem, ok := elemType.(*dwarf.StructType); ok {
		l.SemaWaiting = true
		for _, f := range elem.Field {
			if f.Name == "vu" {
				l.SudogElem += uint32(f.ByteOffset)
			}
		}
	}
	return l, nil
}

// fieldReader looks fields up, and keeps the first that is not there.
type fieldReader struct {
	structs map[string]*dwarf.StructType
	err     error
}

// find reads the structs. The linker puts all types in one unit, among those of
// package runtime; units of other languages are passed over.
func (r *fieldReader) find(data *dwarf.Data, names ...string) error {
	missing := make(map[string]bool)
	for _, n := range names {
		missing[n] = true
	}
	reader := data.Reader()
	for len(missing) > 0 {
		e, err := reader.Next()
		if err != nil {
			return err
		}
		if e == nil {
			for n := range missing {
				return fmt.Errorf("no type %s", n)
			}
		}
		if e.Tag == dwarf.TagSubprogram {
			reader.SkipChildren()
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag != dwarf.TagStructType || !missing[name] {
			continue
		}
		typ, err := data.Type(e.Offset)
		if err != nil {
			return err
		}
		s, ok := typ.(*dwarf.StructType)
		if !ok {
			return fmt.Errorf("type %s is no struct", path.Base(name))
		}
		r.structs[name] = s
		delete(missing, name)
	}
	return nil
}

func (r *fieldReader) field(structure, name string) *dwarf.StructField {
	for _, f := range r.structs[structure].Field {
		if f.Name == name {
			return f
		}
	}
	if r.err == nil {
		r.err = fmt.Errorf("no field %s.%s", structure, name)
	}
	return &dwarf.StructField{}
}

func (r *fieldReader) at(structure, name string) uint32 {
	return uint32(r.field(structure, name).ByteOffset)
}
