package recording

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteJSONIsAllOrNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.json")
	for _, v := range []int{1, 2} {
		if err := WriteJSON(path, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteJSON(path, math.NaN()); err == nil {
		t.Error("NaN was encoded")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "2\n" {
		t.Errorf("file holds %q, %v; want the last whole value", b, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteJSON(filepath.Join(dir, "taken"), 1); err == nil {
		t.Error("a folder was replaced by a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("remains: %v, %v", entries, err)
	}
}
