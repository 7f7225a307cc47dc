package render

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBundleIsCurrent: the committed bundle was built from the committed
// sources. It needs no npm: the build writes down what it read.
func TestBundleIsCurrent(t *testing.T) {
	sums, err := os.ReadFile("page/dist/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("line %q", line)
		}
		listed[name] = sum
	}
	sources, err := filepath.Glob("page/src/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(sources, "page/build.mjs", "page/package-lock.json") {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "page/")
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != listed[name] {
			t.Errorf("%s is newer than the bundle: run npm ci && npm run build in page/", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("the bundle was built from %s, which is gone", name)
	}
	for _, name := range []string{"d3-flame-graph 5.0.0", "d3-selection 3.0.0", "Apache License", "ISC"} {
		if !strings.Contains(pageFile("licenses.txt"), name) {
			t.Errorf("licenses.txt does not mention %s", name)
		}
	}
	for _, bad := range []string{"</script", "<script", "<!--"} { // they change how HTML reads a script element
		if strings.Contains(strings.ToLower(pageFile("page.js")), bad) {
			t.Errorf("the bundle contains %q", bad)
		}
	}
	if strings.Contains(strings.ToLower(pageFile("page.css")), "</style") {
		t.Error("the style sheet would end its own element")
	}
}

// TestLockFileNamesNoRegistry: the lock file must work with any registry.
func TestLockFileNamesNoRegistry(t *testing.T) {
	lock, err := os.ReadFile("page/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), `"resolved"`) || strings.Contains(string(lock), "registry.") {
		t.Error("package-lock.json names a registry; keep omit-lockfile-registry-resolved=true")
	}
}
