// Package soak attaches to a busy process over and over, and is killed while
// attached, and says whether anything of it is left.
package soak

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"contend/internal/collect"
	"contend/internal/collect/gowait"
	"contend/internal/collect/target"
	"contend/internal/recording"
)

// Plan is what to do.
type Plan struct {
	Contend string // the executable that is killed
	Target  string // of internal/collect/gowait/testdata/locks, whose goroutines' stacks grow and move
	Scratch string
	Cycles  int           // of attaching and detaching
	Kills   int           // of a recorder that records
	Bound   time.Duration // begins nothing after that
}

// Result is what came of it.
type Result struct {
	Cycles, Kills  int
	Attach, Detach []time.Duration // sorted
	Ops            int64           // the target has done meanwhile
	Errors         int64           // it found in its own state
	Alive          bool
	Left           int // bytes of its code that are not as in its file
	Elapsed        time.Duration
}

// Whole reports whether all was done, and left nothing behind.
func (r *Result) Whole(p Plan) bool {
	return r.Cycles == p.Cycles && r.Kills == p.Kills && r.Alive && r.Errors == 0 && r.Left == 0 && r.Ops > 0
}

// Run carries the plan out.
func (p Plan) Run(ctx context.Context, log io.Writer) (*Result, error) {
	t, err := start(ctx, p.Target)
	if err != nil {
		return nil, err
	}
	defer t.stop()
	if _, err := t.do("load 8 1 1ms"); err != nil {
		return nil, err
	}
	r, began := &Result{}, time.Now()
	over := func() bool { return time.Since(began) > p.Bound || ctx.Err() != nil }
	// The kills first: they must not be what the bound cuts off.
	for ; r.Kills < p.Kills && !over(); r.Kills++ {
		if err := p.kill(ctx, t); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(log, "%d recorders killed\n", r.Kills)
	for ; r.Cycles < p.Cycles && !over(); r.Cycles++ {
		if err := r.cycle(ctx, t, r.Cycles); err != nil {
			return nil, err
		}
		if (r.Cycles+1)%100 == 0 {
			fmt.Fprintf(log, "%d cycles\n", r.Cycles+1)
		}
	}
	slices.Sort(r.Attach)
	slices.Sort(r.Detach)
	r.Alive, r.Elapsed = t.process.Alive(), time.Since(began)
	if r.Left, err = t.changed(); err != nil {
		return nil, err
	}
	state, err := t.do("unload")
	r.Ops, r.Errors = state.Ops, state.Errors
	return r, err
}

// cycle attaches in one of the modes, lets the target run into the probes, and
// detaches.
func (r *Result) cycle(ctx context.Context, t *running, n int) error {
	began := time.Now()
	s, err := collect.Attach(ctx, collect.Options{
		PID: t.process.PID, Collect: []string{recording.Waits, recording.OffCPU}, Named: true,
		Waits:   []string{gowait.ModeLocks, gowait.ModeAll}[n%2],
		Holders: []string{gowait.HoldersOff, gowait.HoldersExact}[n/2%2],
	})
	if err != nil {
		return err
	}
	r.Attach = append(r.Attach, time.Since(began))
	time.Sleep(rand.N(5 * time.Millisecond))
	began = time.Now()
	err = s.Close()
	r.Detach = append(r.Detach, time.Since(began))
	return err
}

// kill ends a recorder by force at some moment of its recording.
func (p Plan) kill(ctx context.Context, t *running) error {
	dir, err := os.MkdirTemp(p.Scratch, "kill")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ready := filepath.Join(dir, "ready")
	cmd := exec.CommandContext(ctx, p.Contend, "record", "--pid", strconv.Itoa(t.process.PID), "-d", "1m",
		"--waits", "all", "--holders", "exact", "--ready-file", ready, "-o", filepath.Join(dir, "out"))
	if err := cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("a recorder was not ready within 30 s"), cmd.Process.Kill(), cmd.Wait())
		}
	}
	time.Sleep(rand.N(100 * time.Millisecond))
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		return fmt.Errorf("a recorder that was killed ended by itself: %w", err)
	}
	return nil
}

// state is what the target says.
type state struct {
	Ops    int64 `json:"ops"`
	Errors int64 `json:"errors"`
}

type running struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	process *target.Process
}

func start(ctx context.Context, exe string) (*running, error) {
	t := &running{cmd: exec.CommandContext(ctx, exe)}
	var err error
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewReader(out)
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err = t.do("stats"); err == nil {
		t.process, err = target.Find(t.cmd.Process.Pid)
	}
	if err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

func (t *running) do(command string) (s state, err error) {
	if _, err := fmt.Fprintln(t.in, command); err != nil {
		return s, err
	}
	line, err := t.out.ReadBytes('\n')
	if err != nil {
		return s, fmt.Errorf("%s: the target does not answer: %w", command, err)
	}
	return s, json.Unmarshal(line, &s)
}

func (t *running) stop() {
	t.in.Close()
	_ = t.cmd.Process.Kill() // it may have ended
	_ = t.cmd.Wait()
}

// changed counts the bytes of the target's code that differ from its file: where a
// probe is, or was and was not taken out.
func (t *running) changed() (n int, err error) {
	f, err := elf.Open(t.process.Exe)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 {
			continue
		}
		want, got := make([]byte, p.Filesz), make([]byte, p.Filesz)
		if _, err := p.ReadAt(want, 0); err != nil {
			return 0, err
		}
		if err := t.process.ReadMemory(p.Vaddr+t.process.Bias, got); err != nil {
			return 0, err
		}
		for i := range want {
			if want[i] != got[i] {
				n++
			}
		}
	}
	return n, nil
}
