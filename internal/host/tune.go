package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"contend/internal/recording"
)

// TunedFile is where Tune keeps what it found, until Restore has put it back.
const TunedFile = "/var/lib/contend/host-tuned.json"

// ErrNotTuned says that there is nothing to put back.
var ErrNotTuned = errors.New("this host is not tuned")

// Change is one attribute that Tune changed, or Restore put back.
type Change struct {
	Path string `json:"path"` // relative to the root
	Was  string `json:"was"`
	Set  string `json:"set"`
	Err  string `json:"-"` // why it was not done, in one line; "" when it was
}

// tuned is the file that Tune keeps.
type tuned struct {
	Schema  int      `json:"schema"`
	BootID  string   `json:"boot_id"` // a restart undoes all changes
	Changes []Change `json:"changes"`
}

const (
	tunedSchema = 1
	maxTuned    = 4 << 20 // 1,000 CPUs with 10 idle states each are 2 MB
)

// Tune gives the host below root, "/" on a live one, the settings of a host to
// measure on, and returns what it changed and what it could not. Before it changes
// anything, it writes what it found to the file, so that Restore can put all of it
// back even after a crash in between.
func Tune(root, file string) ([]Change, error) {
	t := tree(root)
	kept, err := readTuned(t, file)
	if err != nil && !errors.Is(err, ErrNotTuned) {
		return nil, err
	}
	var changes []Change
	for _, s := range wanted(t) {
		was, ok := t.setting(s.path)
		if !ok || was == s.want {
			continue
		}
		c := Change{Path: s.path, Was: was, Set: s.want}
		changes = append(changes, c)
		// What an earlier call found is what there was before any tuning.
		if !slices.ContainsFunc(kept.Changes, func(k Change) bool { return k.Path == c.Path }) {
			kept.Changes = append(kept.Changes, c)
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	if err := kept.write(file); err != nil {
		return nil, err
	}
	for i := range changes {
		changes[i].Err = t.put(changes[i].Path, changes[i].Set)
	}
	return changes, nil
}

// Restore puts back what Tune changed and returns that. What somebody else has
// changed since is left alone, and said so in its Err. The file is removed once
// nothing is left to be put back by another call.
func Restore(root, file string) ([]Change, error) {
	t := tree(root)
	kept, err := readTuned(t, file)
	if err != nil {
		return nil, err
	}
	var done, left []Change
	for _, c := range slices.Backward(kept.Changes) {
		now, known := t.setting(c.Path)
		switch {
		case now == c.Was:
			continue // as after a crash before it was changed
		case now == c.Set || !known:
			if c.Err = t.put(c.Path, c.Was); c.Err != "" {
				left = append(left, c)
			}
		default:
			c.Err = fmt.Sprintf("left at %q, which somebody else has set", now)
		}
		done = append(done, c)
	}
	if len(left) == 0 {
		return done, os.Remove(file)
	}
	slices.Reverse(left)
	kept.Changes = left
	return done, kept.write(file)
}

// put writes an attribute and makes sure that the kernel took it. It returns what
// went wrong, in one line.
func (t tree) put(path, value string) string {
	// Not created: an attribute that has gone, as of a CPU taken offline, stays so.
	f, err := os.OpenFile(filepath.Join(string(t), path), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return cause(err)
	}
	_, err = io.WriteString(f, value)
	if err = errors.Join(err, f.Close()); err != nil {
		return cause(err)
	}
	if now, _ := t.setting(path); now != value {
		return fmt.Sprintf("the kernel kept %q", now)
	}
	return ""
}

// cause is an error without the path, which stands beside it.
func cause(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "permission denied: needs root"
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// readTuned reads the file; ErrNotTuned when there is none, or one of an earlier
// boot, whose changes the restart has undone.
func readTuned(t tree, file string) (*tuned, error) {
	fresh := &tuned{Schema: tunedSchema, BootID: t.text("proc/sys/kernel/random/boot_id")}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, ErrNotTuned
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	kept, err := parseTuned(io.LimitReader(f, maxTuned))
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", file, err)
	}
	if kept.BootID != fresh.BootID {
		return fresh, ErrNotTuned
	}
	return kept, nil
}

// parseTuned reads what Tune keeps. Its paths are written to by root: none may
// lead out of the two trees of attributes.
func parseTuned(r io.Reader) (*tuned, error) {
	var k tuned
	if err := json.NewDecoder(r).Decode(&k); err != nil {
		return nil, err
	}
	if k.Schema != tunedSchema {
		return nil, fmt.Errorf("schema %d; this contend reads %d", k.Schema, tunedSchema)
	}
	for _, c := range k.Changes {
		inside := strings.HasPrefix(c.Path, "sys/") || strings.HasPrefix(c.Path, "proc/sys/")
		if !filepath.IsLocal(c.Path) || filepath.Clean(c.Path) != c.Path || !inside {
			return nil, fmt.Errorf("%q is no kernel attribute", c.Path)
		}
	}
	return &k, nil
}

func (k *tuned) write(file string) error {
	if err := recording.MkdirAll(filepath.Dir(file)); err != nil {
		return fmt.Errorf("cannot keep what was found: %w", err)
	}
	if err := recording.WriteJSON(file, k); err != nil {
		return fmt.Errorf("cannot keep what was found: %w", err)
	}
	return nil
}
