package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/pprof/profile"
)

// maxJSON bounds a manifest; for profiles see checkParsed.
const maxJSON = 16 << 20

// Recording is a recording on disk. Profiles are read when asked for.
type Recording struct {
	Path     string
	Manifest Manifest
}

// Open reads and checks a recording's manifest.
func Open(path string) (*Recording, error) {
	name := filepath.Join(path, ManifestFile)
	f, err := os.Open(name)
	if err != nil {
		if strings.HasSuffix(filepath.Clean(path), Incomplete) {
			return nil, fmt.Errorf("%s was never finished: it has no %s", path, ManifestFile)
		}
		return nil, err
	}
	defer f.Close()
	m, err := readManifest(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := &Recording{Path: path, Manifest: *m}
	return r, r.checkFiles()
}

// checkFiles demands the profiles without which the manifest would be untrue.
// Those of the target's own endpoint may be missing: the manifest's warnings say
// why.
func (r *Recording) checkFiles() error {
	for _, c := range r.Manifest.Collectors {
		if c.Name != Waits && c.Name != OffCPU {
			continue
		}
		names := []string{c.Name}
		if len(c.Parts) > 0 {
			names = append(names, Parks)
		}
		for _, name := range names {
			file := filepath.Join(r.Path, name+".pb.gz")
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is missing, though %s says that %s were collected: the recording is not whole", file, ManifestFile, c.Name)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// Profile reads the profile of that name; fs.ErrNotExist if the recording has none.
func (r *Recording) Profile(name string) (*profile.Profile, error) {
	return ReadProfile(r.profilePath(name))
}

func (r *Recording) profilePath(name string) string { return filepath.Join(r.Path, name+".pb.gz") }

// Profiles names the profiles that the recording holds, sorted.
func (r *Recording) Profiles() ([]string, error) {
	entries, err := os.ReadDir(r.Path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if n, ok := strings.CutSuffix(e.Name(), ".pb.gz"); ok {
			names = append(names, n)
		}
	}
	return names, nil
}

// Workload reads the workload's results; nil and no error if there are none.
func (r *Recording) Workload() (*WorkloadResult, error) {
	w, err := ReadWorkload(filepath.Join(r.Path, WorkloadFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return w, err
}

// ReadWorkload reads one workload.json.
func ReadWorkload(path string) (*WorkloadResult, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, err := readWorkload(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

func readWorkload(r io.Reader) (*WorkloadResult, error) {
	var w WorkloadResult
	if err := decodeJSON(r, &w); err != nil {
		return nil, err
	}
	if w.Schema != Schema {
		return nil, fmt.Errorf("schema %d; this contend reads schema %d", w.Schema, Schema)
	}
	return &w, nil
}

// ReadProfile reads one pprof file, gzipped or not.
func ReadProfile(path string) (*profile.Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := DecodeProfile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// DecodeProfile reads one pprof file, gzipped or not, within the bounds on a
// profile's size.
func DecodeProfile(r io.Reader) (*profile.Profile, error) {
	p, _, err := readProfile(r, maxUnpacked, maxParsed)
	return p, err
}

// readProfile reads a profile of at most unpacked bytes that takes at most
// parsed bytes of memory, and tells how many it takes.
func readProfile(r io.Reader, unpacked, parsed int64) (p *profile.Profile, size int64, _ error) {
	in := bufio.NewReader(r)
	magic, err := in.Peek(2)
	if len(magic) == 0 {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		return nil, 0, errors.New("not a pprof profile: the file is empty")
	}
	r = in
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if r, err = gzip.NewReader(in); err != nil {
			return nil, 0, fmt.Errorf("damaged gzip: %w", err)
		}
	}
	b, err := readAtMost(r, unpacked)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot unpack: %w", err)
	}
	if size, err = checkParsed(b, parsed); err != nil {
		return nil, size, err
	}
	p, err = profile.ParseUncompressed(b)
	if err != nil {
		return nil, 0, fmt.Errorf("not a pprof profile, or a damaged one: %w", err)
	}
	if err := p.CheckValid(); err != nil {
		return nil, 0, fmt.Errorf("the profile does not hold together: %w", err)
	}
	return p, size, nil
}

func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("more than %d MiB of data: refused", limit>>20)
	}
	return b, nil
}

func readManifest(r io.Reader) (*Manifest, error) {
	var m Manifest
	if err := decodeJSON(r, &m); err != nil {
		return nil, err
	}
	return &m, m.validate()
}

func decodeJSON(r io.Reader, v any) error {
	b, err := readAtMost(r, maxJSON)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("damaged JSON: %w", err)
	}
	return nil
}
