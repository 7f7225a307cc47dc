package input

import (
	"fmt"
	"testing"
	"time"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// TestPairs: runs meet by the numbers of their folders; one without a partner is
// in no pair, and costs the others nothing.
func TestPairs(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// side makes runs, number n at minute 2n of its pair, plus a delay.
	side := func(form string, delay time.Duration, numbers ...int) *analyze.Side {
		s := &analyze.Side{}
		for _, n := range numbers {
			s.Runs = append(s.Runs, analyze.Run{Path: fmt.Sprintf(form, n),
				Manifest: &recording.Manifest{Started: at.Add(time.Duration(2*n)*time.Minute + delay)}})
		}
		return s
	}
	for _, c := range []struct {
		name string
		a, b *analyze.Side
		want string // pair of each run
	}{
		{"whole", side("x/run-%03d", 0, 1, 2, 3), side("y/run-%03d", time.Minute, 1, 2, 3), "true [1 2 3] [1 2 3]"},
		{"one missing", side("x/run-%03d", 0, 1, 2, 3, 4), side("y/run-%03d", time.Minute, 1, 3, 4), "true [1 0 3 4] [1 3 4]"},
		{"one missing on either side", side("x/run-%d", time.Minute, 1, 2, 4), side("y/run-%d", 0, 1, 3, 4), "true [1 0 4] [1 0 4]"},
		{"other names", side("x/a%d", 0, 1, 2, 3), side("y/b%d", time.Minute, 1, 2, 3), "true [1 2 3] [1 2 3]"},
		{"other names, one missing", side("x/a%d", 0, 1, 2, 3), side("y/b%d", time.Minute, 1, 3), "false [0 0 0] [0 0]"},
		{"one side after the other", side("x/run-%d", 0, 1, 2, 3), side("y/run-%d", time.Hour, 1, 2, 3), "false [0 0 0] [0 0 0]"},
		{"a number twice: by place", side("x/run-%d", 0, 1, 2), side("y/run-%d", time.Minute, 1, 1), "true [1 2] [1 2]"},
		{"an empty side", side("x/run-%d", 0), side("y/run-%d", 0, 1), "false [] [0]"},
	} {
		pairs := func(s *analyze.Side) []int {
			out := []int{}
			for _, r := range s.Runs {
				out = append(out, r.Pair)
			}
			return out
		}
		ok := Pair(c.a, c.b)
		if got := fmt.Sprint(ok, pairs(c.a), pairs(c.b)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
