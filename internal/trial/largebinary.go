package trial

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// WriteLargeProgram writes the source of a module whose binary is large as those of
// real programs are: packages of types, each with a lock and methods that call,
// branch, range, inline and format. It does nothing when run. Ten thousand types make
// about 100 MB, debug information included.
func WriteLargeProgram(dir string, types int) error {
	const perPackage = 250
	var main bytes.Buffer
	main.WriteString("package main\n\nimport (\n")
	packages := (types + perPackage - 1) / perPackage
	for p := range packages {
		fmt.Fprintf(&main, "\t\"large/p%d\"\n", p)
	}
	main.WriteString(")\n\nvar all []any\n\nfunc main() {\n")
	for p := range packages {
		fmt.Fprintf(&main, "\tall = append(all, p%d.All()...)\n", p)
	}
	main.WriteString("}\n")
	files := map[string][]byte{"go.mod": []byte("module large\n\ngo 1.24\n"), "main.go": main.Bytes()}
	for p := range packages {
		files[fmt.Sprintf("p%d/p%d.go", p, p)] = largePackage(p, min(perPackage, types-p*perPackage))
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func largePackage(p, types int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package p%d\n\nimport (\n\t\"fmt\"\n\t\"sort\"\n\t\"strings\"\n\t\"sync\"\n)\n\n", p)
	b.WriteString("func All() []any {\n\treturn []any{")
	for i := range types {
		fmt.Fprintf(&b, "new(T%d), (*T%[1]d).Put, (*T%[1]d).Find, (*T%[1]d).Move, ", i)
	}
	b.WriteString("}\n}\n")
	for i := range types {
		fmt.Fprintf(&b, largeType, i, i%13+1, max(i-1, 0))
	}
	return b.Bytes()
}

// largeType is a type and its methods: %[1]d is its number, %[2]d a size and %[3]d
// another type's number.
const largeType = `
type T%[1]d struct {
	pad  [%[2]d]int64
	mu   sync.Mutex
	rw   sync.RWMutex
	m    map[string]int
	keys []string
	next *T%[3]d
	hist [%[2]d]struct{ n, sum int }
}

func (t *T%[1]d) small(n int) int { return n*%[2]d + len(t.keys) }

func (t *T%[1]d) Put(k string, v int) (old int, err error) {
	if k == "" {
		return 0, fmt.Errorf("T%[1]d: empty key for %%d", v)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = make(map[string]int)
	}
	old = t.m[k]
	t.m[strings.ToLower(k)] = t.small(v)
	t.keys = append(t.keys, k)
	t.hist[v%%%[2]d].n++
	t.hist[v%%%[2]d].sum += v
	return old, nil
}

func (t *T%[1]d) Find(prefix string, limit int) (found []string, total int) {
	t.rw.RLock()
	for k, v := range t.m {
		switch {
		case strings.HasPrefix(k, prefix):
			found = append(found, fmt.Sprintf("%%s=%%d", k, t.small(v)))
		case strings.HasSuffix(k, prefix) && v > %[2]d:
			total += v
		case len(k) == %[2]d:
			total -= t.small(len(k))
		}
		if len(found) >= limit {
			break
		}
	}
	t.rw.RUnlock()
	sort.Slice(found, func(i, j int) bool {
		if len(found[i]) != len(found[j]) {
			return len(found[i]) < len(found[j])
		}
		return found[i] < found[j]
	})
	return found, total
}

func (t *T%[1]d) Move(to *T%[3]d, names ...string) (moved int) {
	t.mu.Lock()
	for i, name := range names {
		if v, ok := t.m[name]; ok {
			delete(t.m, name)
			t.pad[i%%%[2]d] += int64(v)
			moved++
		}
	}
	t.mu.Unlock()
	to.rw.Lock()
	for i := range to.keys {
		if i < len(names) && to.keys[i] == names[i] {
			to.keys[i] = strings.Repeat(names[i], i%%3)
		}
	}
	to.rw.Unlock()
	if t.next != nil {
		t.next.mu.Lock()
		t.next.m = nil
		t.next.mu.Unlock()
	}
	return moved
}
`
