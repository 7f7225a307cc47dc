package render

import (
	"slices"
	"testing"
)

func TestFoldWarnings(t *testing.T) {
	got := foldWarnings([]string{
		"baseline: other processes used 17.4 % of the CPUs (bound 5 %)",
		"no verdict: 2 pairs; a verdict needs 6",
		"baseline: other processes used 36.5 % of the CPUs (bound 5 %)",
		"candidate: other processes used 21.7 % of the CPUs (bound 5 %)",
		"baseline: other processes used 9 % of the CPUs (bound 5 %) (in 3 of 9 runs)",
		"candidate: the clock was throttled (in 2 of 9 runs)",
		"the Go versions differ: go1.26.7 and go1.26.8",
		"a\x1bb", "a\x1bb",
	})
	want := []string{
		"baseline: other processes used 9–36.5 % of the CPUs (bound 5 %), 5 times",
		"no verdict: 2 pairs; a verdict needs 6",
		"candidate: other processes used 21.7 % of the CPUs (bound 5 %)",
		"candidate: the clock was throttled (in 2 of 9 runs)",
		"the Go versions differ: go1.26.7 and go1.26.8",
		`a\x1bb, 2 times`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
