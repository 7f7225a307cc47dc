package input

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// folder writes a recording with the given profiles.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run-001")
	w, err := recording.Create(path, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := w.Profile(name, types("contentions/count", "delay/nanoseconds")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(&recording.Manifest{DurationNS: 1e9, Ended: recording.EndedDuration}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOnlyNeededProfilesAreRead: those that the analysis looks at, and of the
// default order the first that all sides have.
func TestOnlyNeededProfilesAreRead(t *testing.T) {
	all := folder(t, "waits", "holders", "offcpu", "mutex", "block", "cpu", "fgprof")
	few := folder(t, "mutex", "block", "cpu")
	other := folder(t, "fgprof")
	for _, c := range []struct {
		profile string
		paths   []string
		want    string // per path
	}{
		{"", []string{all}, "holders offcpu waits"},
		{"", []string{all, all}, "holders offcpu waits; holders offcpu waits"},
		{"", []string{all, few}, "block offcpu; block"},
		{"mutex", []string{few, all}, "mutex; mutex offcpu"},
		{"", []string{few, other}, "block cpu mutex; fgprof"}, // none in both: an error that lists what there is
		{"holders", []string{all}, "holders offcpu"},
	} {
		sides, _, err := Options{Profile: c.profile}.Sides(c.paths...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range sides {
			got = append(got, strings.Join(slices.Sorted(maps.Keys(s.Runs[0].Profiles)), " "))
		}
		if g := strings.Join(got, "; "); g != c.want {
			t.Errorf("--profile %q of %d: read %q, want %q", c.profile, len(c.paths), g, c.want)
		}
		// What the analysis chooses of all it would choose of these.
		if name, err := analyze.ChooseProfile(sides, c.profile); err == nil && !strings.Contains(got[0], name) {
			t.Errorf("chose %s of %q", name, got)
		}
	}
}
