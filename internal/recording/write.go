package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/pprof/profile"
)

// ErrExists says that the output is already there and was not to be replaced.
var ErrExists = errors.New("already exists")

// Writer writes one recording. Everything goes to PATH.INCOMPLETE, which
// becomes PATH only in Commit: a folder under its own name is a whole recording.
type Writer struct {
	path    string // final name
	tmp     string
	replace bool
	done    bool
}

// Create begins a recording at path. It refuses an existing path with an error
// that wraps ErrExists; with force it replaces path, but only if path is itself
// a recording, so that a slip of the hand cannot delete anything else.
func Create(path string, force bool) (*Writer, error) {
	path = filepath.Clean(path)
	w := &Writer{path: path, tmp: path + Incomplete}
	switch _, err := os.Lstat(path); {
	case err == nil && !force:
		return nil, fmt.Errorf("output %s %w: choose another -o, or --force to replace a recording", path, ErrExists)
	case err == nil:
		if _, err := os.Stat(filepath.Join(path, ManifestFile)); err != nil {
			return nil, fmt.Errorf("output %s %w and is not a recording (no %s): --force will not replace it", path, ErrExists, ManifestFile)
		}
		w.replace = true
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if dir := filepath.Dir(path); dir != "." {
		if err := mkdirAllOwned(dir); err != nil {
			return nil, fmt.Errorf("cannot make the output's folder: %w", err)
		}
	}
	if force {
		if err := os.RemoveAll(w.tmp); err != nil {
			return nil, fmt.Errorf("cannot remove the remains of an earlier recording: %w", err)
		}
	}
	if err := os.Mkdir(w.tmp, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s %w: a recording to it is under way or was cut short; remove it, or use --force", w.tmp, ErrExists)
		}
		return nil, fmt.Errorf("cannot make the output: %w", err)
	}
	return w, own(w.tmp)
}

// Profile adds the profile of that name.
func (w *Writer) Profile(name string, p *profile.Profile) error {
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("profile %s does not hold together: %w", name, err)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return fmt.Errorf("cannot encode profile %s: %w", name, err)
	}
	return w.file(name+".pb.gz", b.Bytes())
}

// Workload adds the workload's results.
func (w *Writer) Workload(r *WorkloadResult) error { return w.json(WorkloadFile, r) }

// Text adds a file of evidence that is read by people only.
func (w *Writer) Text(name string, b []byte) error { return w.file(name, b) }

// Commit writes the manifest and gives the recording its name.
func (w *Writer) Commit(m *Manifest) error {
	if w.done {
		return errors.New("recording already closed")
	}
	m.Schema = Schema
	if err := m.validate(); err != nil {
		return fmt.Errorf("refusing to write a manifest that could not be read back: %w", err)
	}
	if err := w.json(ManifestFile, m); err != nil {
		return err
	}
	if w.replace {
		if err := os.RemoveAll(w.path); err != nil {
			return fmt.Errorf("cannot replace %s: %w", w.path, err)
		}
	}
	if err := os.Rename(w.tmp, w.path); err != nil {
		return err
	}
	w.done = true
	return nil
}

// Abort removes what was written. After Commit it does nothing, so that it can be deferred.
func (w *Writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	return os.RemoveAll(w.tmp)
}

// Keep leaves the unfinished folder in place for a person to look at and
// returns its name: what a run whose verification failed leaves behind.
func (w *Writer) Keep() string {
	w.done = true
	return w.tmp
}

func (w *Writer) json(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode %s: %w", name, err)
	}
	return w.file(name, append(b, '\n'))
}

// file writes one file whole and makes sure that it reached the disk: a full
// disk must be an error here, not a truncated profile later.
func (w *Writer) file(name string, b []byte) error {
	path := filepath.Join(w.tmp, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return own(path)
}

// mkdirAllOwned is os.MkdirAll, each new folder owned as own says.
func mkdirAllOwned(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := mkdirAllOwned(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return own(dir)
}

// own gives a file made under sudo to the person who invoked it.
func own(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, err1 := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, err2 := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err1 != nil || err2 != nil {
		return nil
	}
	return os.Lchown(path, uid, gid)
}
