package recording

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// TestBudgetIsOfAllProfiles: each fits, and together they do not.
func TestBudgetIsOfAllProfiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	w, err := Create(path, false)
	if err != nil {
		t.Fatal(err)
	}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "delay", Unit: "nanoseconds"}}}
	for range 1000 {
		p.Sample = append(p.Sample, &profile.Sample{Value: []int64{1}})
	}
	if err := w.Profile("waits", p); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(&Manifest{DurationNS: 1, Ended: EndedDuration}); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := &Budget{limit: 1 << 20}
	for i := 1; ; i++ {
		p, err := r.ProfileWithin("waits", b)
		if err == nil && len(p.Sample) == 1000 && i < 100 {
			continue
		}
		if i < 3 || i > 20 || err == nil || !strings.Contains(err.Error(), "more than the 1 MiB that contend allows a command: give fewer runs") {
			t.Errorf("profile %d: %v", i, err)
		}
		break
	}
}
