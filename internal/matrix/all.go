package matrix

import (
	"context"
	"fmt"
	"io"
	"os"
)

// tries bounds how often a cell is recorded until it holds: other programs on the
// machine can keep a waiter that was woken off the CPU for longer than the tolerance.
const tries = 3

// All runs every cell whose result is not in the file of lines yet, or is not as
// designed there, and adds it. Cells of a toolchain that is not at hand are left out.
func (m *Maker) All(ctx context.Context, lines string, only func(toolchain string, b Build) bool, log io.Writer) error {
	known, err := Read(lines)
	if err != nil {
		return err
	}
	done := make(map[string]bool)
	for _, r := range known {
		done[r.key()] = r.Holds()
	}
	for _, toolchain := range Toolchains {
		if err := m.Have(ctx, toolchain); err != nil {
			fmt.Fprintf(log, "%s: %v\n", toolchain, err)
			continue
		}
		for _, b := range Builds {
			if only != nil && !only(toolchain, b) {
				continue
			}
			for _, mode := range Modes {
				r := &Result{Toolchain: toolchain, Build: b.Name, Mode: mode}
				if done[r.key()] {
					continue
				}
				r = m.cell(ctx, toolchain, b, mode)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				fmt.Fprintf(log, "%s: off by %+.2f %% %v %s%s\n", r.key(), 100*r.TotalOff, r.Wrong, r.Refused, r.Failed)
				if err := Append(lines, r); err != nil {
					return err
				}
			}
			m.forget(toolchain, b)
		}
	}
	return nil
}

// cell builds and records one cell.
func (m *Maker) cell(ctx context.Context, toolchain string, b Build, mode string) *Result {
	exe, err := m.Make(ctx, toolchain, b)
	if err != nil {
		return &Result{Toolchain: toolchain, Build: b.Name, Mode: mode, Failed: err.Error()}
	}
	var r *Result
	for i := range tries {
		r = m.Try(ctx, exe, toolchain, b, mode)
		r.Tries = i + 1
		if r.Holds() || r.Refused != "" || ctx.Err() != nil {
			break
		}
	}
	return r
}

// forget removes a target that is no longer needed; the plain one makes profiles.
func (m *Maker) forget(toolchain string, b Build) {
	if b.Name == Builds[0].Name {
		return
	}
	_ = os.Remove(m.path(toolchain, b)) // else it goes with the scratch folder
}
