package recording

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/google/pprof/profile"
)

// TestParsedMemoryIsEstimated holds the estimate to what parsing really keeps:
// never much less, or the bound would not hold.
func TestParsedMemoryIsEstimated(t *testing.T) {
	for name, change := range map[string]func(*profile.Sample){
		"stacks": func(*profile.Sample) {},
		"labels": func(s *profile.Sample) { s.Label = map[string][]string{"class": {"lock"}, "wait": {"sync.Mutex.Lock"}} },
		"number labels": func(s *profile.Sample) {
			s.NumLabel = map[string][]int64{"lock_addr": {1 << 40}, "duration": {1 << 20}}
		},
		"empty": func(s *profile.Sample) { s.Location = nil },
	} {
		t.Run(name, func(t *testing.T) {
			p := sampleProfile(5)
			s := p.Sample[0]
			p.Sample = nil
			for range 50_000 {
				c := *s
				change(&c)
				p.Sample = append(p.Sample, &c)
			}
			var b bytes.Buffer
			if err := p.WriteUncompressed(&b); err != nil {
				t.Fatal(err)
			}
			p = nil
			kept := keptBy(func() any {
				parsed, err := profile.ParseUncompressed(b.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				return parsed
			})
			if _, err := checkParsed(b.Bytes(), kept*9/10); err == nil {
				t.Errorf("parsing keeps %d bytes; the estimate is more than a tenth below", kept)
			}
			if _, err := checkParsed(b.Bytes(), 4*kept); err != nil {
				t.Errorf("parsing keeps %d bytes; the estimate is four times that: %v", kept, err)
			}
		})
	}
}

// keptBy is the memory that what fn returns holds on to.
func keptBy(fn func() any) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := fn()
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	runtime.KeepAlive(v)
	return kept
}
