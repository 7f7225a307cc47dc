package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// MkdirAll is os.MkdirAll for a user's output: under sudo, what is made belongs
// to the invoking user.
func MkdirAll(dir string) error { return mkdirAllOwned(filepath.Clean(dir)) }

// WriteJSON is WriteFile of v as indented JSON.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", path, err)
	}
	return WriteFile(path, append(b, '\n'))
}

// WriteFile replaces a file, whole or not at all: a full disk leaves the old
// one alone. The file is owned as MkdirAll says. What is no regular file, like a
// terminal or a pipe, is written to in place.
func WriteFile(path string, b []byte) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return os.WriteFile(path, b, 0o644)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := own(f.Name()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
