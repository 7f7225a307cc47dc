package stacks

import (
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func TestBuilder(t *testing.T) {
	b := New(time.Unix(5, 0), time.Second, true)
	s := b.Add(b.Stack([]Frame{{"sync.(*Mutex).Lock", "m.go", 3}, {"main.f", "x.go", 7}}), []int64{1, 2, 3}, map[string]string{Wait: "sync", Waker: ""})
	SetNanoseconds(s, Max, 9)
	b.Add(b.Stack([]Frame{{"main.f", "x.go", 7}}), []int64{1, 2, 3}, nil)
	b.Add(b.Stack(nil), []int64{1, 2, 3}, nil)
	p := b.Profile
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	if len(p.Function) != 3 || len(p.Location) != 3 || p.Location[2].Line[0].Function.Name != Unknown {
		t.Errorf("%d functions, %d locations: a frame is one", len(p.Function), len(p.Location))
	}
	if len(s.Label) != 1 || s.NumLabel[Max][0] != 9 || p.TimeNanos != 5e9 || p.DurationNanos != 1e9 {
		t.Errorf("%v", p)
	}
	if err := b.TooLarge(); err != nil {
		t.Error(err)
	}
	b.Profile.Sample = make([]*profile.Sample, maxSamples+1)
	if b.TooLarge() == nil {
		t.Error("there is no bound")
	}
}

func TestBucket(t *testing.T) {
	for ns, want := range map[int64]int64{-1: 1, 0: 1, 1: 1, 2: 2, 1023: 512, 1024: 1024} {
		if got := Bucket(ns); got != want {
			t.Errorf("%d: %d, want %d", ns, got, want)
		}
	}
}
