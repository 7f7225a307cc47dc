package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Only main.go ends the process, only cmd touches the standard streams, and
// every package has exactly one package comment.
func TestSourceHabits(t *testing.T) {
	for _, p := range packages(t) {
		comments := 0
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil && !ast.IsGenerated(f) {
				comments++
			}
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" {
					inCmd := strings.HasPrefix(p.ImportPath, "contend/cmd/")
					switch {
					case sel.Sel.Name == "Exit" && name != "main.go":
						t.Errorf("%s: os.Exit outside main.go", fset.Position(sel.Pos()))
					case (sel.Sel.Name == "Stdout" || sel.Sel.Name == "Stderr") && !inCmd:
						t.Errorf("%s: os.%s outside cmd", fset.Position(sel.Pos()), sel.Sel.Name)
					}
				}
				return true
			})
		}
		if comments != 1 && len(p.GoFiles) > 0 {
			t.Errorf("%s has %d package comments, want 1", p.ImportPath, comments)
		}
	}
}
