package lockname

import (
	"debug/dwarf"
	"strings"
)

// Attributes of Go's own (cmd/internal/dwarf/dwarf_defs.go).
const (
	attrGoKind          dwarf.Attr = 0x2900
	attrGoClosureOffset dwarf.Attr = 0x2907
)

// Values of attrGoKind: internal/abi.Kind.
const (
	goArray     = 17
	goInterface = 20
	goPointer   = 22
	goSlice     = 23
	goStruct    = 25
)

// maxTypes bounds what a corrupt file can make us keep.
const maxTypes = 1 << 18

// typeAt returns the type at an offset, nil if there is none.
func (d *debugInfo) typeAt(off dwarf.Offset) *typ { return d.typeBehind(off, "", 0) }

// typeBehind is typeAt under the name of a typedef.
func (d *debugInfo) typeBehind(off dwarf.Offset, alias string, depth int) *typ {
	if t, ok := d.types[off]; ok && alias == "" {
		return t
	}
	if depth > 8 || len(d.types) >= maxTypes {
		return nil
	}
	r := d.data.Reader()
	r.Seek(off)
	e, err := r.Next()
	if err != nil || e == nil || e.Offset != off {
		return nil
	}
	t := &typ{}
	t.name, _ = e.Val(dwarf.AttrName).(string)
	if alias != "" {
		t.name = alias
	}
	t.size, _ = e.Val(dwarf.AttrByteSize).(int64)
	ref, _ := e.Val(dwarf.AttrType).(dwarf.Offset)
	goKind, _ := e.Val(attrGoKind).(int64)
	switch {
	case e.Tag == dwarf.TagTypedef:
		if goKind == goInterface {
			t.kind, t.size = kindInterface, 16
			break
		}
		t = d.typeBehind(ref, t.name, depth+1)
	case e.Tag == dwarf.TagPointerType:
		t.kind, t.size, t.name = kindPointer, 8, ""
		t.elem = func() *typ { return d.typeAt(ref) }
	case e.Tag == dwarf.TagArrayType:
		t.kind = kindArray
		t.elem = func() *typ { return d.typeAt(ref) }
	case e.Tag == dwarf.TagStructType && goKind == goSlice:
		t.kind, t.size = kindSlice, 24
		t.elem = d.sliceElement(off)
	case e.Tag == dwarf.TagStructType:
		t.kind = kindStruct
		t.fields = d.fieldsOf(off)
		if literal(t.name) {
			t.name = ""
		}
	}
	if t != nil && (t.kind == kindArray || t.kind == kindSlice) && literal(t.name) {
		t.name = ""
	}
	if alias == "" {
		d.types[off] = t
	}
	return t
}

// literal reports the name of a type that has none.
func literal(name string) bool {
	return strings.HasPrefix(name, "struct {") || strings.HasPrefix(name, "[") || strings.HasPrefix(name, "noalg.")
}

// fieldsOf reads a struct's fields when first asked.
func (d *debugInfo) fieldsOf(off dwarf.Offset) func() []field {
	var fields []field
	read := false
	return func() []field {
		if !read {
			read = true
			for _, m := range d.members(off) {
				if t := d.typeAt(m.ref); t != nil {
					fields = append(fields, field{m.name, m.off, t})
				}
			}
		}
		return fields
	}
}

// sliceElement is the type that a slice's first field points to.
func (d *debugInfo) sliceElement(off dwarf.Offset) func() *typ {
	return func() *typ {
		for _, m := range d.members(off) {
			if m.off == 0 {
				if t := d.typeAt(m.ref); t != nil && t.kind == kindPointer {
					return t.elem()
				}
			}
		}
		return nil
	}
}

type member struct {
	name string
	off  int64
	ref  dwarf.Offset
}

func (d *debugInfo) members(off dwarf.Offset) []member {
	r := d.data.Reader()
	r.Seek(off)
	e, err := r.Next()
	if err != nil || e == nil || !e.Children {
		return nil
	}
	var members []member
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == 0 {
			return members
		}
		if e.Tag == dwarf.TagMember {
			m := member{}
			m.name, _ = e.Val(dwarf.AttrName).(string)
			m.off, _ = e.Val(dwarf.AttrDataMemberLoc).(int64)
			m.ref, _ = e.Val(dwarf.AttrType).(dwarf.Offset)
			members = append(members, m)
		}
		if e.Children {
			r.SkipChildren()
		}
	}
}
