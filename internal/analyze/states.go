package analyze

import "contend/internal/recording"

// StateChange is how the average number of goroutines in a state differs over
// pairs, candidate ÷ baseline.
type StateChange struct {
	State string `json:"state"` // lock, backpressure, handoff, runtime: as in Goroutines
	Effect
}

// stateChanges compares the averages of Goroutines where they are sums over the
// window. A row of the comparison would not do for the arrow beside them: that is of
// blocked time per operation, and can go the other way.
func (x *comparison) stateChanges() (out []StateChange) {
	if x.differ != "" || x.profile == recording.OffCPU {
		return nil
	}
	of := map[string]func(*row) bool{
		"lock": func(r *row) bool {
			return r.verdict.category == catBlocked && r.effectiveClass() == recording.ClassLock
		},
	}
	states := []string{"lock"}
	for _, cat := range []category{catBackPressure, catHandoff, catRuntime} {
		if x.captured(cat) {
			states = append(states, categoryKey[cat])
			of[categoryKey[cat]] = func(r *row) bool { return r.verdict.category == cat }
		}
	}
	for _, state := range states {
		var v [2][]float64
		for _, p := range x.pairs {
			for side, runs := range p {
				var delay, wall int64
				for _, rd := range runs {
					wall = add(wall, rd.wall)
					for i := range rd.rows {
						if of[state](&rd.rows[i]) {
							delay = add(delay, rd.rows[i].delay)
						}
					}
				}
				if wall <= 0 {
					return nil
				}
				v[side] = append(v[side], float64(delay)/float64(wall))
			}
		}
		if e := PairedRatio(v[0], v[1]); e.Center != nil {
			out = append(out, StateChange{state, e})
		}
	}
	return out
}
