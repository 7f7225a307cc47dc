package gowait

import (
	"debug/dwarf"
	"debug/elf"
	"runtime"
	"testing"
)

// TestLayoutAgainstDWARF holds the table of offsets to what the compiler says of
// the runtime that builds the targets.
func TestLayoutAgainstDWARF(t *testing.T) {
	f, err := elf.Open(buildTarget(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	types := structs(t, data, "runtime.g", "runtime.gobuf", "runtime.stack", "runtime.sudog", "runtime.pollDesc", "runtime.semaRoot")
	l, err := layoutFor(runtime.Version())
	if err != nil {
		t.Fatal(err)
	}
	at := func(path ...string) uint32 {
		offset := int64(0)
		for i := 0; i < len(path); i += 2 {
			offset += field(t, types, path[i], path[i+1])
		}
		return uint32(offset)
	}
	for what, v := range map[string]struct{ got, want uint32 }{
		"g.stack.hi":      {l.StackHi, at("runtime.g", "stack", "runtime.stack", "hi")},
		"g.sched.sp":      {l.SchedSp, at("runtime.g", "sched", "runtime.gobuf", "sp")},
		"g.sched.pc":      {l.SchedPc, at("runtime.g", "sched", "runtime.gobuf", "pc")},
		"g.sched.g":       {l.schedG, at("runtime.g", "sched", "runtime.gobuf", "g")},
		"g.sched.bp":      {l.SchedBp, at("runtime.g", "sched", "runtime.gobuf", "bp")},
		"g.atomicstatus":  {l.atomicstatus, at("runtime.g", "atomicstatus")},
		"g.goid":          {l.goid, at("runtime.g", "goid")},
		"g.schedlink":     {l.schedlink, at("runtime.g", "schedlink")},
		"g.waitsince":     {l.waitsince, at("runtime.g", "waitsince")},
		"g.waitreason":    {l.waitreason, at("runtime.g", "waitreason")},
		"g.waiting":       {l.gWaiting, at("runtime.g", "waiting")},
		"sudog.next":      {l.SudogNext, at("runtime.sudog", "next")},
		"sudog.prev":      {l.SudogPrev, at("runtime.sudog", "prev")},
		"sudog.elem.vu":   {l.SudogElem, at("runtime.sudog", "elem") + 8},
		"sudog.waitlink":  {l.SudogWaitlink, at("runtime.sudog", "waitlink")},
		"sudog, its size": {l.sudogSize, uint32(types["runtime.sudog"].ByteSize)},
		"semaRoot.treap":  {l.RootTreap, at("runtime.semaRoot", "treap")},
		"pollDesc.rg":     {l.pollRg, at("runtime.pollDesc", "rg")},
		"pollDesc.wg":     {l.pollWg, at("runtime.pollDesc", "wg")},
	} {
		if v.got != v.want {
			t.Errorf("%s at %d, the compiler has it at %d", what, v.got, v.want)
		}
	}
}

// structs finds types by name.
func structs(t *testing.T, data *dwarf.Data, names ...string) map[string]*dwarf.StructType {
	t.Helper()
	found := make(map[string]*dwarf.StructType)
	for _, name := range names {
		found[name] = nil
	}
	for r := data.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if known, wanted := found[name]; e.Tag != dwarf.TagStructType || !wanted || known != nil {
			continue
		}
		typ, err := data.Type(e.Offset)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = typ.(*dwarf.StructType)
	}
	return found
}

func field(t *testing.T, types map[string]*dwarf.StructType, name, field string) int64 {
	t.Helper()
	if typ := types[name]; typ != nil {
		for _, f := range typ.Field {
			if f.Name == field {
				return f.ByteOffset
			}
		}
	}
	t.Fatalf("no %s.%s", name, field)
	return 0
}
