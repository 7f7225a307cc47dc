package trial

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"contend/internal/collect/livetest"
	"contend/internal/recording"
)

// wait is a sample of a stack, leaf first.
func wait(count, ns int64, functions ...string) *profile.Sample {
	s := &profile.Sample{Value: []int64{count, ns, ns / 10}}
	for i, f := range functions {
		s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Line: int64(10 + i), Function: &profile.Function{Name: f}}}})
	}
	return s
}

func TestLockSite(t *testing.T) {
	for want, stack := range map[string][]string{
		"main.put:12":      {"internal/sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "main.put"},
		"main.get:11":      {"sync.(*RWMutex).RLock", "main.get"},
		"net.(*conn).W:12": {"internal/poll.(*fdMutex).rwlock", "internal/poll.(*FD).Write", "net.(*conn).W"},
		"":                 {"runtime.chanrecv1", "main.lock", "sync.(*Mutex).Lock", "main.no"},
	} {
		if got := lockSite(wait(1, 1, stack...)); got != want {
			t.Errorf("%v waits at %q, want %q", stack, got, want)
		}
	}
}

func TestVerifiedHolds(t *testing.T) {
	amount := func(ms int64) Amount { return Amount{Count: ms, NS: ms * 1e6} }
	v := Verified{WallNS: 1e9, Contend: amount(95), Block: amount(100), Sites: []Site{{Contend: amount(90), Block: amount(100)}}}
	if !v.Contended() || !v.Holds() {
		t.Errorf("5 and 10 %% off does not hold: %+v", v)
	}
	v.Sites[0].Contend = amount(80)
	if v.Holds() {
		t.Error("a site 20 % off holds")
	}
	v.Sites, v.Contend = nil, amount(80)
	if v.Holds() {
		t.Error("a sum 20 % off holds")
	}
	idle := Verified{WallNS: 10e9, Contend: amount(1), Block: amount(2)}
	if idle.Contended() || !idle.Holds() {
		t.Errorf("next to nothing: %+v", idle)
	}
	var b bytes.Buffer
	if err := ReportBrokers(&b, []*Verified{&v, &idle}, "make brokers"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| -20.0 % |", "**no**", "too little to tell"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}

// A broker is built, driven, recorded and compared; how well it agrees is for a
// machine with nothing else to do.
func TestRecordBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("records a broker")
	}
	livetest.Require(t)
	contend := filepath.Join(t.TempDir(), "contend")
	if out, err := exec.Command("go", "build", "-o", contend, "contend/cmd/contend").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	source, err := filepath.Abs("../../testdata/brokers")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r := &Recorder{Contend: contend, Window: 2 * time.Second}
	rec, report, err := r.RecordBroker(ctx, Brokers[0], source, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	v, err := Verify(Brokers[0].Name, rec, report)
	if err != nil {
		t.Fatal(err)
	}
	if v.Block.Count == 0 || v.Contend.Count == 0 || !strings.Contains(report, recording.ClassLock) {
		t.Errorf("%+v", v)
	}
	if off := v.Off(); off < -0.5 || off > 0.5 {
		t.Errorf("by contend %v, by the block profile %v", v.Contend, v.Block)
	}
}
