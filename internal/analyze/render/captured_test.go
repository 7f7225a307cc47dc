package render

import (
	"bytes"
	"strings"
	"testing"

	"contend/internal/analyze"
	"contend/internal/recording"
)

// A report says which waits were captured, and those of a part for how long.
func TestCapturedIsSaid(t *testing.T) {
	m := &recording.Manifest{DurationNS: 10e9, Collectors: []recording.Collector{{Name: recording.Waits, Settings: map[string]string{"asked": "auto"}}}}
	for want, r := range map[string]*analyze.Report{
		"every wait captured":           {Mode: analyze.ModeAll},
		"only waits for locks captured": {Mode: analyze.ModeLocks},
		"every other wait for 200 ms":   {Mode: analyze.ModeLocks, Parts: &analyze.Parts{WallNS: 200e6}},
	} {
		r.Recording, r.Totals.WallNS = m, 10e9
		var out bytes.Buffer
		if err := Report(&out, r, Text, Options{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// A lock whose waits all went on at the end shows its longest, and that nobody was
// seen to release it.
func TestStuckLock(t *testing.T) {
	r := &analyze.Report{Mode: analyze.ModeAll, Locks: []analyze.Lock{{Name: "the lock", Class: "lock", DelayNS: 70e9,
		OpenWaits: 7, OpenNS: 70e9, UnfinishedWaits: 7, UnfinishedMaxNS: 300e9}}}
	r.Totals.WallNS = 10e9
	var out bytes.Buffer
	if err := Report(&out, r, Text, Options{}); err != nil {
		t.Fatal(err)
	}
	if want := "7 waits not over at the end, the longest for ≥ 300 s; no release seen"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}
