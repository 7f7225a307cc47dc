package experiment

import (
	"fmt"

	"contend/internal/analyze/render"
)

// A subject is what the experiments with one of the bench's workloads are
// about. Its functions may be nil.
type subject struct {
	notes map[string]string // what each arm changes
	// figures are an arm's beside throughput, latencies and lock wait.
	figures func(r *Result, series string) ([]render.Figure, error)
	// findings hold the experiment against what it was to show. by has each
	// series' attribution of lock waits, by pair.
	findings func(r *Result, s *Summary, by map[string]map[int]attribution) ([]render.Finding, error)
}

var subjects = map[string]subject{
	"checkpoint": {notes: checkpointNotes, figures: checkpointFigures, findings: checkpointFindings},
	"handover":   {notes: handoverNotes, findings: handoverFindings},
	"listener":   {notes: listenerNotes, figures: listenerFigures, findings: listenerFindings},
}

// verifyFinding sums what every run verified.
func verifyFinding(s *Summary) render.Finding {
	v := VerifyTotal{}
	for _, a := range s.Series {
		v.Delivered += a.Verify.Delivered
		v.Lost += a.Verify.Lost
		v.Duplicated += a.Verify.Duplicated
		v.Reordered += a.Verify.Reordered
		v.Invalid += a.Verify.Invalid
	}
	return render.Finding{
		What: "every message once and in order", Reference: "no duplicates, no violations", Goal: "none",
		Here:    fmt.Sprintf("%d delivered; %d lost, %d duplicated, %d reordered, %d invalid", v.Delivered, v.Lost, v.Duplicated, v.Reordered, v.Invalid),
		Verdict: met(v.Lost+v.Duplicated+v.Reordered+v.Invalid == 0),
	}
}
