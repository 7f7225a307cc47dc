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

// WriteJSON replaces a file with v as indented JSON, whole or not at all, owned
// as MkdirAll says.
func WriteJSON(path string, v any) (err error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", path, err)
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
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = own(f.Name()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
