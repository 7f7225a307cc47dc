package workload

import (
	"testing"
	"time"
)

func TestSummarizeMergesRecorders(t *testing.T) {
	a, b := NewRecorder(), NewRecorder()
	for i := range 100 {
		r := a
		if i%2 == 0 {
			r = b
		}
		r.Lock()
		r.Record(int64(i+1) * int64(time.Millisecond))
		r.Unlock()
	}
	got := Summarize(TakeAll([]*Recorder{a, b}))
	if got.Count != 100 || got.Mean != 50.5*float64(time.Millisecond) {
		t.Errorf("count %d, mean %g", got.Count, got.Mean)
	}
	near := func(name string, v int64, want time.Duration) {
		if d := time.Duration(v) - want; d < -want/500 || d > want/500 { // three digits
			t.Errorf("%s is %v, want %v", name, time.Duration(v), want)
		}
	}
	near("p50", got.P50, 50*time.Millisecond)
	near("p99", got.P99, 99*time.Millisecond)
	near("max", got.Max, 100*time.Millisecond)
	if got := Summarize(TakeAll([]*Recorder{a, b})); got.Count != 0 || got.Mean != 0 || got.Max != 0 {
		t.Errorf("the next window holds %+v", got)
	}
	a.Lock()
	a.Record(int64(time.Second))
	a.Unlock()
	got = Summarize(TakeAll([]*Recorder{a, b}))
	near("p50 of one", got.P50, time.Second)
	if got.Count != 1 || got.Mean != float64(time.Second) {
		t.Errorf("the window after that holds %+v", got)
	}
}
