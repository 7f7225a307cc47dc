package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Series is the recordings of one side, in the order of their folders' names.
type Series struct {
	Path     string
	Runs     []*Recording
	Warnings []string // runs that were passed over, and why
}

// OpenSeries opens a recording, or any folder with run-*/recording.json in it.
// Unfinished runs are passed over with a warning; a damaged one is an error.
func OpenSeries(path string) (*Series, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file, not a recording", path)
	}
	if _, err := os.Stat(filepath.Join(path, ManifestFile)); err == nil {
		r, err := Open(path)
		if err != nil {
			return nil, err
		}
		return &Series{Path: path, Runs: []*Recording{r}}, nil
	}
	dirs, err := filepath.Glob(filepath.Join(escapeGlob(path), "run-*"))
	if err != nil {
		return nil, err
	}
	sort.Strings(dirs)
	s := &Series{Path: path}
	for _, dir := range dirs {
		if strings.HasSuffix(dir, Incomplete) {
			s.Warnings = append(s.Warnings, filepath.Base(dir)+" was never finished: passed over")
			continue
		}
		r, err := Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			s.Warnings = append(s.Warnings, filepath.Base(dir)+" holds no "+ManifestFile+": passed over")
			continue
		}
		if err != nil {
			return nil, err
		}
		s.Runs = append(s.Runs, r)
	}
	if len(s.Runs) == 0 {
		if strings.HasSuffix(filepath.Clean(path), Incomplete) {
			return nil, fmt.Errorf("%s was never finished: it has no %s", path, ManifestFile)
		}
		return nil, fmt.Errorf("%s is not a recording: no %s in it, nor in any run-* below it", path, ManifestFile)
	}
	return s, nil
}

// escapeGlob keeps a folder's own name from being read as a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
