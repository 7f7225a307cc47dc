package host

import (
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// tree is a directory that holds proc and sys, real or fake.
type tree string

// maxFile bounds what is read of one file: attributes of sysfs are at most a
// page, the files of procfs used here little more.
const maxFile = 64 << 10

// text returns the trimmed contents of a small file, or "" when it cannot be read.
func (t tree) text(path string) string {
	f, err := os.Open(filepath.Join(string(t), path))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// float returns a file's number times scale, or nil.
func (t tree) float(path string, scale float64) *float64 {
	v, err := strconv.ParseFloat(t.text(path), 64)
	if err != nil {
		return nil
	}
	v *= scale
	return &v
}

// integer returns a file's whole number, or nil.
func (t tree) integer(path string) *int64 {
	v, err := strconv.ParseInt(t.text(path), 10, 64)
	if err != nil {
		return nil
	}
	return &v
}

// flag reports whether a file's number is other than zero; nil when there is none.
func (t tree) flag(path string) *bool {
	v := t.integer(path)
	if v == nil {
		return nil
	}
	on := *v != 0
	return &on
}

// glob returns the matching paths relative to the tree, sorted.
func (t tree) glob(pattern string) []string {
	found, err := filepath.Glob(filepath.Join(string(t), pattern))
	if err != nil {
		return nil
	}
	paths := make([]string, 0, len(found))
	for _, f := range found {
		if rel, err := filepath.Rel(string(t), f); err == nil {
			paths = append(paths, rel)
		}
	}
	sort.Strings(paths)
	return paths
}

// selected returns the bracketed word of a sysfs choice: "always [madvise] never".
func selected(choice string) string {
	_, rest, ok := strings.Cut(choice, "[")
	if !ok {
		return ""
	}
	word, _, ok := strings.Cut(rest, "]")
	if !ok {
		return ""
	}
	return word
}
