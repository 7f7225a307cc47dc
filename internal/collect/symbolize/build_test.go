package symbolize

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// kinds are the ways to build a target that lay out its tables differently.
var kinds = map[string]buildKind{
	"plain":            {},
	"stripped":         {args: []string{"-ldflags=-s -w"}},
	"trimpath":         {args: []string{"-trimpath"}},
	"pie":              {args: []string{"-buildmode=pie"}},
	"pie stripped":     {args: []string{"-buildmode=pie", "-ldflags=-s -w"}},
	"cgo":              {args: []string{"-tags=withcgo", "-ldflags=-linkmode=external"}, cgo: true},
	"cgo pie stripped": {args: []string{"-tags=withcgo", "-buildmode=pie", "-ldflags=-s -w -linkmode=external"}, cgo: true},
	"no sections":      {args: []string{"-ldflags=-s -w"}, patch: dropSections},
}

type buildKind struct {
	args  []string
	cgo   bool
	patch func(elf []byte)
}

// dropSections removes the section headers from an ELF file's header.
func dropSections(file []byte) {
	binary.LittleEndian.PutUint64(file[0x28:], 0) // e_shoff
	binary.LittleEndian.PutUint32(file[0x3c:], 0) // e_shnum, e_shstrndx
}

var (
	buildDir string
	builds   sync.Map // kind → func() (path string, err error)
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "symbolize")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build returns the path of the target "stacks", built once for all tests.
func build(t testing.TB, kind string) string {
	t.Helper()
	k := kinds[kind]
	if k.cgo {
		if _, err := exec.LookPath("gcc"); err != nil {
			t.Skip("cgo needs gcc, which is not installed")
		}
	}
	once, _ := builds.LoadOrStore(kind, sync.OnceValues(func() (string, error) {
		path := filepath.Join(buildDir, strings.ReplaceAll(kind, " ", "-"))
		cmd := exec.Command("go", append(append([]string{"build", "-o", path}, k.args...), "./testdata/stacks")...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		if k.cgo {
			cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("%s", out)
			return "", err
		}
		if k.patch == nil {
			return path, nil
		}
		file, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		k.patch(file)
		return path, os.WriteFile(path, file, 0o755)
	}))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("building target %q: %v", kind, err)
	}
	return path
}

// open opens the target, which the test's end closes.
func open(t testing.TB, kind string) *Binary {
	t.Helper()
	b, err := Open(build(t, kind))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func run(t testing.TB, path string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(path)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, stderr.Bytes())
	}
	return string(out)
}
