package lockname

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sources reads Go files as the binary names them, where they are there and not
// newer than the binary. Of each it keeps what it says of locks and structs: syntax
// trees are a hundred times as large.
type sources struct {
	built time.Time
	files map[string]*source
	dirs  map[string]map[string]bool // by folder, "Type.field" of its structs' own fields
}

type source struct {
	calls  map[int][]taken // of methods that wait, by the line on which the call ends
	fields []string        // "Type.field"
}

// maxSource bounds a file that is parsed. Generated files of a few MiB exist.
const maxSource = 8 << 20

// newSources reads for a binary of a given age.
func newSources(built time.Time) *sources {
	return &sources{built: built, files: make(map[string]*source), dirs: make(map[string]map[string]bool)}
}

// file parses a source file, nil if it cannot be used. The name is what a binary
// claims it to be: only a regular file of Go source is opened.
func (s *sources) file(path string) *source {
	if f, ok := s.files[path]; ok {
		return f
	}
	s.files[path] = nil
	info, err := os.Stat(path)
	if err != nil || !filepath.IsAbs(path) || filepath.Ext(path) != ".go" || !info.Mode().IsRegular() || info.Size() > maxSource || info.ModTime().After(s.built) {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	s.files[path] = digest(text)
	return s.files[path]
}

// digest reads what a file says of locks and structs, nil if it is not Go.
func digest(text []byte) *source {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	d := &source{calls: make(map[int][]taken)}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			ast.Inspect(decl, func(node ast.Node) bool {
				if c, ok := node.(*ast.CallExpr); ok {
					if sel, ok := c.Fun.(*ast.SelectorExpr); ok && lockMethods[sel.Sel.Name] {
						line := set.PositionFor(c.Rparen, false).Line
						d.calls[line] = append(d.calls[line], selected(sel.X, decl))
					}
				}
				return true
			})
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				d.addFields(spec)
			}
		}
	}
	return d
}

func (d *source) addFields(spec ast.Spec) {
	ts, ok := spec.(*ast.TypeSpec)
	if !ok {
		return
	}
	st, ok := ts.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range st.Fields.List {
		for _, id := range f.Names {
			d.fields = append(d.fields, ts.Name.Name+"."+id.Name)
		}
	}
}

// taken is what a line of source says of the lock it takes.
type taken struct {
	field string // the last field selected, "" if the lock is a variable or embedded
	// The type of the method's receiver, where the field is selected from that; as is,
	// or embedded.
	receiver string
	dir      string // the file's
}

// lockMethods are the methods that wait, or whose callee does.
var lockMethods = map[string]bool{"Lock": true, "RLock": true, "Wait": true, "Do": true, "DoChan": true}

// selected reads the operand of a call.
func selected(x ast.Expr, function *ast.FuncDecl) taken {
	x = ast.Unparen(x)
	if index, ok := x.(*ast.IndexExpr); ok {
		x = index.X
	}
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return taken{}
	}
	t := taken{field: sel.Sel.Name}
	if name, typeName := receiver(function); name != "" && isIdent(sel.X, name) {
		t.receiver = typeName
	}
	return t
}

// takes reads a line. It is not ok where the line takes no lock, or several.
func (s *sources) takes(path string, line int) (t taken, ok bool) {
	f := s.file(path)
	if f == nil || len(f.calls[line]) != 1 {
		return t, false
	}
	t = f.calls[line][0]
	t.dir = filepath.Dir(path)
	return t, true
}

// owner is the struct type, of the package of the method that a line is in, of which
// the lock is a field; "" where the line does not tell.
func (s *sources) owner(t taken) string {
	if t.receiver == "" || !s.declares(t.dir, strings.TrimSuffix(t.receiver, "[...]")+"."+t.field) {
		return ""
	}
	return t.receiver
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// receiver is the name and type of a method's receiver; no name if the body
// declares it anew.
func receiver(fn *ast.FuncDecl) (name, typeName string) {
	if fn.Recv == nil || len(fn.Recv.List) != 1 || len(fn.Recv.List[0].Names) != 1 {
		return "", ""
	}
	name = fn.Recv.List[0].Names[0].Name
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch x := t.(type) {
	case *ast.Ident:
		typeName = x.Name
	case *ast.IndexExpr: // generic
		if id, ok := x.X.(*ast.Ident); ok {
			typeName = id.Name + "[...]"
		}
	case *ast.IndexListExpr:
		if id, ok := x.X.(*ast.Ident); ok {
			typeName = id.Name + "[...]"
		}
	}
	shadowed := false
	ast.Inspect(fn.Body, func(node ast.Node) bool {
		switch d := node.(type) {
		case *ast.AssignStmt:
			for _, l := range d.Lhs {
				shadowed = shadowed || isIdent(l, name) // assigned: it may be another's
			}
		case *ast.ValueSpec:
			for _, id := range d.Names {
				shadowed = shadowed || id.Name == name
			}
		case *ast.RangeStmt:
			shadowed = shadowed || d.Key != nil && isIdent(d.Key, name) || d.Value != nil && isIdent(d.Value, name)
		case *ast.FuncType:
			for _, p := range d.Params.List {
				for _, id := range p.Names {
					shadowed = shadowed || id.Name == name
				}
			}
		}
		return true
	})
	if shadowed {
		return "", ""
	}
	return name, typeName
}

// declares reports that a struct type declared in a folder's files has a field of its
// own, "Type.field".
func (s *sources) declares(dir, field string) bool {
	fields, ok := s.dirs[dir]
	if !ok {
		fields = make(map[string]bool)
		s.dirs[dir] = fields
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return false // a folder whose name is a malformed pattern
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			if f := s.file(path); f != nil {
				for _, name := range f.fields {
					fields[name] = true
				}
			}
		}
	}
	return fields[field]
}

// contradicts reports that a name found in the binary cannot be what the line
// says: another field is selected. A lock that is embedded, or is reached through a
// variable, is not selected by its own name.
func (t taken) contradicts(text string) bool {
	if t.field == "" {
		return false
	}
	text, _, _ = strings.Cut(text, " in ")
	for strings.HasSuffix(text, "[…]") {
		text = strings.TrimSuffix(text, "[…]")
	}
	last := text[strings.LastIndexByte(text, '.')+1:]
	return last != t.field && last != "Mutex" && last != "RWMutex" && last != "WaitGroup"
}
