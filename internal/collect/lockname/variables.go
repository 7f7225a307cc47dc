package lockname

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// variable is a parameter or local of a function, or of one inlined into it.
type variable struct {
	name    string
	ref     dwarf.Offset // its type
	param   bool
	closure int64 // offset in the closure's object of a captured one, else 0
	where   []whereabouts
}

// moved reports a variable that the compiler put on the heap, which is known by
// a pointer: that is called &name.
func (v *variable) moved() bool { return strings.HasPrefix(v.name, "&") }

// whereabouts says where the parts of a variable are while the program counter
// is in a range.
type whereabouts struct {
	from, to uint64
	pieces   []piece
}

type piece struct {
	off int64 // in the variable
	at  place
}

// global is a package-level variable.
type global struct {
	name string
	addr uint64
	ref  dwarf.Offset
	size int64
}

// maxVariables bounds those of one function.
const maxVariables = 1 << 14

// declared are the variables of one function before their location lists were
// read.
type declared struct {
	unit  *unit
	vars  []variable
	lists []int64 // by variable, offset in the section of lists; -1 for none
}

// span is the part of the section that holds the lists: they lie together.
func (c *declared) span() (span, bool) {
	s := span{-1, 0}
	for _, off := range c.lists {
		if off >= 0 {
			if s.from < 0 || off < s.from {
				s.from = off
			}
			s.to = max(s.to, off+maxList)
		}
	}
	return s, s.from >= 0
}

// declare reads the variables of the function that starts at an address.
func (d *debugInfo) declare(entry uint64) (*declared, error) {
	off, ok := d.index[entry]
	if !ok {
		return &declared{}, nil
	}
	r := d.data.Reader()
	r.Seek(off)
	e, err := r.Next()
	if err != nil {
		return nil, err
	}
	c := &declared{unit: d.owners[entry]}
	if e == nil || !e.Children {
		return c, nil
	}
	for depth := 1; depth > 0 && len(c.vars) < maxVariables; {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		if e.Tag == 0 {
			depth--
			continue
		}
		if e.Children {
			depth++
		}
		if e.Tag != dwarf.TagFormalParameter && e.Tag != dwarf.TagVariable {
			continue
		}
		v, ok := d.variable(e)
		if !ok {
			continue
		}
		list := int64(-1)
		switch loc := e.Val(dwarf.AttrLocation).(type) {
		case int64:
			list = loc
		case []byte:
			if pieces, ok := parsePieces(loc); ok {
				v.where = []whereabouts{{0, ^uint64(0), pieces}}
			}
		}
		c.vars, c.lists = append(c.vars, v), append(c.lists, list)
	}
	return c, nil
}

// variable reads what does not depend on where it is, of the abstract function
// if this one was inlined somewhere.
func (d *debugInfo) variable(e *dwarf.Entry) (variable, bool) {
	v := variable{param: e.Tag == dwarf.TagFormalParameter}
	for range 2 {
		if name, ok := e.Val(dwarf.AttrName).(string); ok {
			v.name = name
		}
		if ref, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok {
			v.ref = ref
		}
		if off, ok := e.Val(attrGoClosureOffset).(int64); ok {
			v.closure = off
		}
		origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			break
		}
		r := d.data.Reader()
		r.Seek(origin)
		var err error
		if e, err = r.Next(); err != nil || e == nil {
			break
		}
	}
	return v, v.ref != 0
}

// addGlobal notes a package-level variable.
func (d *debugInfo) addGlobal(e *dwarf.Entry, u *unit) {
	loc, _ := e.Val(dwarf.AttrLocation).([]byte)
	ref, _ := e.Val(dwarf.AttrType).(dwarf.Offset)
	name, _ := e.Val(dwarf.AttrName).(string)
	if len(loc) != 9 || loc[0] != opAddr || ref == 0 || name == "" {
		return
	}
	d.vars = append(d.vars, global{name: name, addr: binary.LittleEndian.Uint64(loc[1:]), ref: ref})
}

// maxList is how long the list of one variable may be; what is beyond is not
// known.
const maxList = 16 << 10

// readLists reads the location lists of functions in one pass over the section.
func (d *debugInfo) readLists(functions []*declared) error {
	var spans []span
	v5 := false
	for _, c := range functions {
		if s, ok := c.span(); ok {
			if len(spans) > 0 && v5 != c.unit.v5 {
				return errors.New("units of DWARF 4 and 5 in one binary")
			}
			v5 = c.unit.v5
			spans = append(spans, s)
		}
	}
	name := ".debug_loc"
	if v5 {
		name = ".debug_loclists"
	}
	s := d.file.Section(name)
	if s == nil || len(spans) == 0 {
		return nil
	}
	var err error
	if d.lists, err = d.reserve(s); err != nil {
		return err
	}
	if err := fill(s, d.lists, spans); err != nil {
		return err
	}
	for _, c := range functions {
		d.locate(c)
	}
	return nil
}

// locate parses the lists of a function's variables.
func (d *debugInfo) locate(c *declared) {
	for i, off := range c.lists {
		if off < 0 || off >= int64(len(d.lists)) {
			continue
		}
		p := d.lists[off:min(off+maxList, int64(len(d.lists)))]
		if c.unit.v5 {
			c.vars[i].where = parseLists5(p, func(i uint64) (uint64, bool) { return d.addr(c.unit, i) })
		} else {
			c.vars[i].where = parseLists4(p, c.unit.lowPC)
		}
	}
}

// addr looks up an index of a unit in .debug_addr.
func (d *debugInfo) addr(u *unit, i uint64) (uint64, bool) {
	if i > uint64(len(d.addrs))/8 || u.addrBase < 0 {
		return 0, false
	}
	at := uint64(u.addrBase) + 8*i
	if at+8 > uint64(len(d.addrs)) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(d.addrs[at:]), true
}

// at returns the piece of the variable that is in a place.
func (v *variable) at(pc uint64, at place) (piece, bool) {
	for _, w := range v.where {
		if pc >= w.from && pc < w.to {
			i := slices.IndexFunc(w.pieces, func(p piece) bool { return p.at == at })
			if i >= 0 {
				return w.pieces[i], true
			}
		}
	}
	return piece{}, false
}
