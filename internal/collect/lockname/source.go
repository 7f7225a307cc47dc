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
// newer than the binary.
type sources struct {
	built time.Time
	files map[string]*source
	dirs  map[string]map[string]*ast.StructType
}

type source struct {
	set  *token.FileSet
	file *ast.File
}

// maxSource bounds a file that is parsed. Generated files of a few MiB exist.
const maxSource = 8 << 20

// newSources reads for a binary of a given age.
func newSources(built time.Time) *sources {
	return &sources{built: built, files: make(map[string]*source), dirs: make(map[string]map[string]*ast.StructType)}
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
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	s.files[path] = &source{set, f}
	return s.files[path]
}

// taken is what a line of source says of the lock it takes.
type taken struct {
	field string // the last field selected, "" if the lock is a variable or embedded
	// The struct type, of the method's package, of which that is a field: known
	// where the method's receiver is selected from, and its type declares the field.
	receiver string
}

// lockMethods are the methods that wait, or whose callee does.
var lockMethods = map[string]bool{"Lock": true, "RLock": true, "Wait": true, "Do": true, "DoChan": true}

// takes reads a line. It is not ok where the line takes no lock, or several.
func (s *sources) takes(path string, line int) (t taken, ok bool) {
	f := s.file(path)
	if f == nil {
		return t, false
	}
	var call *ast.SelectorExpr
	var function *ast.FuncDecl
	n := 0
	for _, d := range f.file.Decls {
		fn, isFunc := d.(*ast.FuncDecl)
		if !isFunc || f.line(fn.Pos()) > line || f.line(fn.End()) < line {
			continue
		}
		ast.Inspect(fn, func(node ast.Node) bool {
			if c, isCall := node.(*ast.CallExpr); isCall && f.line(c.Rparen) == line {
				if sel, isSel := c.Fun.(*ast.SelectorExpr); isSel && lockMethods[sel.Sel.Name] {
					call, function = sel, fn
					n++
				}
			}
			return true
		})
	}
	if n != 1 {
		return t, false
	}
	x := ast.Unparen(call.X)
	if index, isIndex := x.(*ast.IndexExpr); isIndex {
		x = index.X
	}
	sel, isSel := x.(*ast.SelectorExpr)
	if !isSel {
		return t, true
	}
	t.field = sel.Sel.Name
	if name, typeName := receiver(function); name != "" && isIdent(sel.X, name) && s.declares(filepath.Dir(path), typeName, t.field) {
		t.receiver = typeName
	}
	return t, true
}

func (f *source) line(p token.Pos) int { return f.set.PositionFor(p, false).Line }

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

// declares reports a struct type, declared in a folder's files, that has a field
// of its own.
func (s *sources) declares(dir, typeName, field string) bool {
	types, ok := s.dirs[dir]
	if !ok {
		types = make(map[string]*ast.StructType)
		s.dirs[dir] = types
		paths, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, path := range paths {
			f := s.file(path)
			if f == nil || strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, d := range f.file.Decls {
				gen, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range gen.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						if st, ok := ts.Type.(*ast.StructType); ok {
							types[ts.Name.Name] = st
						}
					}
				}
			}
		}
	}
	st := types[strings.TrimSuffix(typeName, "[...]")]
	if st == nil {
		return false
	}
	for _, f := range st.Fields.List {
		for _, id := range f.Names {
			if id.Name == field {
				return true
			}
		}
	}
	return false
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
