package gowait

import (
	"errors"

	"contend/bpf"
	"contend/internal/collect/golayout"
	"contend/internal/collect/symbolize"
)

// layoutFor finds the layout of the target's runtime.
func layoutFor(b *symbolize.Binary, exe string) (*golayout.Layout, error) {
	l, err := golayout.For(b.GoVersion(), exe)
	var unknown *golayout.UnknownError
	if errors.As(err, &unknown) {
		return nil, &TargetError{unknown.Why}
	}
	return l, err
}

// semaLayout is the part that the probes of semaphores need.
func semaLayout(l *golayout.Layout) bpf.GowaitGoLayout {
	return bpf.GowaitGoLayout{
		RootTreap: l.RootTreap,
		SudogNext: l.SudogNext, SudogPrev: l.SudogPrev, SudogElem: l.SudogElem, SudogWaitlink: l.SudogWaitlink,
		StackHi: l.StackHi, SchedSp: l.SchedSP, SchedPc: l.SchedPC, SchedBp: l.SchedBP,
	}
}

// parkLayout is the part that the probes of parks need.
func parkLayout(l *golayout.Layout) bpf.GoparksParkLayout {
	return bpf.GoparksParkLayout{
		StackHi: l.StackHi, SchedSp: l.SchedSP, SchedPc: l.SchedPC, SchedBp: l.SchedBP,
		Schedlink: l.Schedlink, Waitreason: l.Waitreason, G_m: l.GM, M_curg: l.Curg,
		PollRg: l.PollRg, PollWg: l.PollWg,
	}
}

// runtime.semtable on amd64: semTabSize roots, each padded to a cache line.
const (
	semRoots    = 251
	semRootSize = 64
)
