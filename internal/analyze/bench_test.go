package analyze

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// wideWaits is a profile of n distinct stacks of 12 to 28 frames.
func wideWaits(n int, seed uint64) *builder {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := newWaits()
	for i := range n {
		var s strings.Builder
		s.WriteString(mutexLeaf)
		for range 7 + i%16 {
			fmt.Fprintf(&s, " example.com/broker/pkg%d.(*type%d).method%d@%d", rng.IntN(20), rng.IntN(20), rng.IntN(8), rng.IntN(5)+1)
		}
		fmt.Fprintf(&s, " main.run%d@%d", i, i)
		b.add(s.String(), labels{"class": "lock", "lock_addr": 64 * (1 + i%4096), "duration": 1 << (10 + i%12)}, 1+int64(i%7), 1000+rng.Int64N(1e6), 10)
	}
	return b
}

const wide = 100_000

func BenchmarkReport(b *testing.B) {
	run := waitsRun(wideWaits(wide, 1), manifest(1, 1e6))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewReport(Side{Runs: []Run{run}}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	base := Side{Runs: []Run{waitsRun(wideWaits(wide, 1), manifest(1, 1e6))}}
	cand := Side{Runs: []Run{waitsRun(wideWaits(wide, 2), manifest(2, 1e6))}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compare(base, cand, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
