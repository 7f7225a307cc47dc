package lockname

import (
	"bytes"
	"encoding/binary"
	"strings"

	"contend/internal/collect/symbolize"
)

// runtimeTypes are the type descriptors that a binary has for its garbage
// collector and reflection, with the names and offsets of all fields. Stripping
// leaves them. They are not indexed but by address: one of a given name is found
// by its name's text.
type runtimeTypes struct {
	base   uint64 // of all offsets
	data   []byte
	types  map[uint64]*typ
	byName map[string]*typ
}

// Layout of internal/abi.Type and what follows it, the same from Go 1.20 to 1.27.
const (
	rtypeFlag  = 20
	rtypeKind  = 23
	rtypeStr   = 40
	rtypeSize  = 48 // the kind's own fields follow: element, or package path and fields
	rtypeField = 24 // abi.StructField: name, type, offset

	flagUncommon  = 1
	flagExtraStar = 2
	kindMask      = 1<<5 - 1

	structSize = 80 // abi.StructType; abi.UncommonType follows
)

// maxRuntimeTypes bounds the descriptors held. Those of the largest binaries known
// are some 30 MB.
const maxRuntimeTypes = 128 << 20

// readRuntimeTypes reads the descriptors; nil if the binary's cannot be used.
func readRuntimeTypes(b *symbolize.Binary) *runtimeTypes {
	data, start, err := b.Types(maxRuntimeTypes)
	if err != nil {
		return nil
	}
	return &runtimeTypes{base: start, data: data, types: make(map[uint64]*typ), byName: make(map[string]*typ)}
}

// named finds the struct type of a package, "github.com/x/y.client". It has none for a
// type that is never allocated nor converted to an interface.
func (r *runtimeTypes) named(name string) *typ {
	t, ok := r.byName[name]
	if !ok {
		t = r.search(name)
		r.byName[name] = t
	}
	return t
}

func (r *runtimeTypes) search(name string) *typ {
	// The text is that of the pointer to it, which shares it, without the path.
	text := "*" + name[strings.LastIndexByte(name, '/')+1:]
	want := append(binary.AppendUvarint(nil, uint64(len(text))), text...)
	var found *typ
	for at := 0; ; at++ {
		i := bytes.Index(r.data[at:], want)
		if i < 0 {
			return found
		}
		at += i
		if at == 0 {
			continue
		}
		str := binary.LittleEndian.AppendUint32(nil, uint32(at-1)) // a byte of flags is before
		for p := 0; ; p++ {
			i := bytes.Index(r.data[p:], str)
			if i < 0 {
				break
			}
			p += i
			if addr := r.base + uint64(p) - rtypeStr; p >= rtypeStr && addr%8 == 0 {
				if t := r.at(addr); t != nil && t.kind == kindStruct && t.name == name {
					if found != nil && found != t {
						return nil // the name's bytes were found by chance
					}
					found = t
				}
			}
		}
	}
}

// bytes reads n bytes at an address.
func (r *runtimeTypes) bytes(addr uint64, n uint64) ([]byte, bool) {
	off := addr - r.base
	if addr < r.base || off > uint64(len(r.data)) || n > uint64(len(r.data))-off {
		return nil, false
	}
	return r.data[off : off+n], true
}

func (r *runtimeTypes) word(addr uint64) uint64 {
	p, ok := r.bytes(addr, 8)
	if !ok {
		return 0
	}
	return binary.LittleEndian.Uint64(p)
}

// text reads an abi.Name: flags, length, bytes.
func (r *runtimeTypes) text(addr uint64) (string, bool) {
	if _, ok := r.bytes(addr, 3); !ok {
		return "", false
	}
	p := r.data[addr-r.base+1:]
	n, size := binary.Uvarint(p)
	if size <= 0 || n > 4096 || n > uint64(len(p)-size) {
		return "", false
	}
	return string(p[size : size+int(n)]), true
}

// maxFields bounds a struct's, which corrupt data could make endless.
const maxFields = 4096

// at reads the descriptor at an address; nil if there is none that holds together.
func (r *runtimeTypes) at(addr uint64) *typ {
	if t, ok := r.types[addr]; ok {
		return t
	}
	raw, ok := r.bytes(addr, rtypeSize+8)
	if !ok || addr%8 != 0 || len(r.types) >= maxTypes {
		return nil
	}
	name, ok := r.text(r.base + uint64(binary.LittleEndian.Uint32(raw[rtypeStr:])))
	if !ok {
		return nil
	}
	if raw[rtypeFlag]&flagExtraStar != 0 {
		name = strings.TrimPrefix(name, "*")
	}
	t := &typ{size: int64(binary.LittleEndian.Uint64(raw))}
	elem := func() *typ { return r.at(binary.LittleEndian.Uint64(raw[rtypeSize:])) }
	switch raw[rtypeKind] & kindMask {
	case goStruct:
		t.kind = kindStruct
		t.fields = r.fieldsOf(addr)
		if raw[rtypeFlag]&flagUncommon != 0 && !literal(name) {
			t.name = r.withPath(addr+structSize, name)
		}
	case goPointer:
		t.kind, t.elem = kindPointer, elem
	case goArray:
		t.kind, t.elem = kindArray, elem
	case goSlice:
		t.kind, t.elem = kindSlice, elem
	case goInterface:
		t.kind = kindInterface
	}
	r.types[addr] = t
	return t
}

// withPath puts a package's import path in place of its name, by the type's
// abi.UncommonType.
func (r *runtimeTypes) withPath(uncommon uint64, name string) string {
	p, ok := r.bytes(uncommon, 4)
	if !ok {
		return name
	}
	pkg, ok := r.text(r.base + uint64(binary.LittleEndian.Uint32(p)))
	if _, local, dot := strings.Cut(name, "."); ok && dot && pkg != "" {
		return pkg + "." + local
	}
	return name
}

func (r *runtimeTypes) fieldsOf(addr uint64) func() []field {
	var fields []field
	read := false
	return func() []field {
		if read {
			return fields
		}
		read = true
		list, n := r.word(addr+rtypeSize+8), r.word(addr+rtypeSize+16)
		for i := range min(n, maxFields) {
			f := list + i*rtypeField
			name, ok := r.text(r.word(f))
			if t := r.at(r.word(f + 8)); ok && t != nil {
				fields = append(fields, field{name, int64(r.word(f + 16)), t})
			}
		}
		return fields
	}
}

// receiverOf is the struct type whose pointer a function is a method of, with import
// path, "" for any other function. It is in AX when the function is entered.
func receiverOf(function string) string {
	pkg, receiver, method, ok := methodOf(function)
	if !ok || strings.ContainsAny(receiver, "[]") || strings.ContainsAny(method, ".-") {
		return "" // generic, or a closure or method value in the method
	}
	return pkg + "." + receiver
}

// methodOf takes apart the name of a method of a pointer, "path/pkg.(*T).m".
func methodOf(function string) (pkg, receiver, method string, ok bool) {
	pkg, rest, ok := strings.Cut(function, ".(*")
	if !ok || strings.Contains(pkg, "[") { // a type argument's
		return "", "", "", false
	}
	receiver, method, ok = strings.Cut(rest, ").")
	return unescape(pkg), receiver, method, ok
}
