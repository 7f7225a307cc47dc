package experiment

import (
	"testing"

	"contend/internal/recording"
)

// TestViewHasMegahertz: the clock of a run is in MHz, not the index of the busy loop.
func TestViewHasMegahertz(t *testing.T) {
	after := &recording.HostState{EffectiveMHz: new(2900.0), ClockIndex: new(12345.0)}
	v := view(RunResult{Slot: Slot{Order: 4, Pair: 2, Host: &recording.HostWindow{After: after}}, Plain: &recording.WorkloadResult{}, Recorded: &recording.WorkloadResult{}}, 2)
	if v.EffectiveMHz == nil || *v.EffectiveMHz != 2900 || v.Position != 2 {
		t.Errorf("%+v", v)
	}
}
