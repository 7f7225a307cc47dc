package analyze

import (
	"go/version"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"
)

// Source says what a file of another tool is.
type Source struct {
	Format string   // "pprof", "folded stacks", …
	Go     string   // version of Go of the program, as far as the file shows it
	Mode   string   // what it can see, where the profile's kind does not say
	Notes  []string // what a reader of its figures must know
	// Sampled says that stacks of running goroutines are in it, too.
	Sampled bool
}

// goRoots are where installations of Go keep the runtime's source: the
// version's place among the folders.
var goRoots = regexp.MustCompile(`(?:toolchain@v[0-9.]+-go|[/-]go-?|/go/)(1\.[0-9]+(?:\.[0-9]+|rc[0-9]+)?)[./-][^:]*\bsrc/(?:runtime|sync|internal/sync)/`)

// GoVersion tells the version of Go of the program from a profile's functions:
// from the folder of the runtime's source, where it has the version in it, else
// from functions that came with a release, a lower bound ("go1.24 or later").
// It returns "" where nothing tells.
func GoVersion(p *profile.Profile) string {
	since := ""
	for _, f := range p.Function {
		if m := goRoots.FindStringSubmatch(f.Filename); m != nil && version.IsValid("go"+m[1]) {
			return "go" + m[1]
		}
		for _, mark := range releaseMarks {
			if strings.HasPrefix(f.Name, mark.prefix) && (since == "" || version.Compare(mark.since, since) > 0) {
				since = mark.since
			}
		}
	}
	if since != "" {
		since += " or later"
	}
	return since
}

// releaseMarks are functions that tell a release.
var releaseMarks = []struct{ prefix, since string }{
	{"internal/sync.(*Mutex).", "go1.24"},
	{"internal/runtime/", "go1.23"},
	{"runtime._LostContendedRuntimeLock", "go1.22"},
}

// goVersion is the version of Go of a run's program, "" when unknown.
func (r *Run) goVersion() string {
	switch {
	case r.Manifest != nil:
		return r.Manifest.Target.Go
	case r.Source != nil:
		return r.Source.Go
	}
	return ""
}

// moment tells whether a run shows one moment of its process, not a window.
func (r *Run) moment() bool { return r.Source != nil && r.Source.Mode == ModeMoment }
