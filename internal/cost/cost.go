// Package cost measures what observing a process costs it, by contend and by what else
// tells where its goroutines wait.
package cost

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"contend/internal/student"
)

// Bench says what to measure, and with what.
type Bench struct {
	Contend string // the executable
	Dir     string // for scratch files
	Window  time.Duration
	Rounds  int
	Log     io.Writer
}

// Rates are those of contended waits, a second of the target's CPU time.
var Rates = []int{1_000, 10_000, 50_000, 200_000}

// Result is what one observer did to the target's operations per CPU second, as a
// share of those without it.
type Result struct {
	Observer string
	Rate     int     // asked for
	Measured float64 // without an observer, waits a second of CPU time
	Ratios   []float64
	Missing  string // why it could not run
}

// Ratio is the geometric mean over the rounds with its 95 % interval.
func (r *Result) Ratio() (mean, low, high float64) {
	n := len(r.Ratios)
	var sum, sq float64
	for _, x := range r.Ratios {
		sum += math.Log(x)
	}
	m := sum / float64(n)
	for _, x := range r.Ratios {
		sq += (math.Log(x) - m) * (math.Log(x) - m)
	}
	if n < 2 {
		return math.Exp(m), 0, math.Inf(1)
	}
	half := student.T975(n-1) * math.Sqrt(sq/float64(n-1)/float64(n))
	return math.Exp(m), math.Exp(m - half), math.Exp(m + half)
}

// Run measures all observers at all rates, in turn.
func (b *Bench) Run(ctx context.Context) ([]Result, error) {
	exe := filepath.Join(b.Dir, "handoffs")
	build := exec.CommandContext(ctx, "go", "build", "-o", exe, "./internal/cost/testdata/handoffs")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the target: %w: %s", err, out)
	}
	var all []Result
	for _, rate := range Rates {
		results, err := b.atRate(ctx, exe, rate)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

func (b *Bench) atRate(ctx context.Context, exe string, rate int) ([]Result, error) {
	t, err := startTarget(ctx, b.Log, exe, "-each", (time.Second / time.Duration(rate)).String())
	if err != nil {
		return nil, err
	}
	defer t.stop()
	observers := b.observers(exe, t)
	results := make([]Result, len(observers))
	var bare []float64
	for range b.Rounds {
		for i, o := range observers {
			r := &results[i]
			r.Observer, r.Rate = o.name, rate
			if r.Missing != "" {
				continue
			}
			before, err := t.rate(b.Window)
			if err != nil {
				return nil, err
			}
			observed, err := b.observe(ctx, t, o)
			if errors.Is(err, errMissing) {
				r.Missing = err.Error()
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.name, err)
			}
			after, err := t.rate(b.Window)
			if err != nil {
				return nil, err
			}
			bare = append(bare, before, after)
			r.Ratios = append(r.Ratios, observed/math.Sqrt(before*after))
			fmt.Fprintf(b.Log, "%d/s %s %.4f\n", rate, o.name, r.Ratios[len(r.Ratios)-1])
		}
	}
	slices.Sort(bare)
	for i := range results {
		results[i].Measured = bare[len(bare)/2]
	}
	return results, nil
}

// observe measures the target under an observer.
func (b *Bench) observe(ctx context.Context, t *target, o observer) (float64, error) {
	stop, err := o.start(ctx)
	if err != nil {
		return 0, err
	}
	rate, err := t.rate(b.Window)
	return rate, errors.Join(err, stop())
}

// target is a running program under test.
type target struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startTarget(ctx context.Context, log io.Writer, exe string, args ...string) (*target, error) {
	t := &target{cmd: exec.CommandContext(ctx, exe, args...)}
	t.cmd.Stderr = log
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := t.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.in, t.out = in, bufio.NewReader(out)
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = t.do("stats")
	return t, err
}

func (t *target) stop() {
	_ = t.cmd.Process.Kill() // it may have exited
	_ = t.cmd.Wait()
}

type stats struct {
	Waits int64 `json:"waits"`
	CPUNS int64 `json:"cpu_ns"`
}

func (t *target) do(command string) (s stats, err error) {
	if _, err := fmt.Fprintln(t.in, command); err != nil {
		return s, err
	}
	line, err := t.out.ReadBytes('\n')
	if err != nil {
		return s, fmt.Errorf("the target does not answer: %w", err)
	}
	return s, json.Unmarshal(line, &s)
}

// rate is the target's operations, each of which waits once, in a second of its CPU time.
func (t *target) rate(window time.Duration) (float64, error) {
	before, err := t.do("stats")
	if err != nil {
		return 0, err
	}
	time.Sleep(window)
	after, err := t.do("stats")
	if err != nil {
		return 0, err
	}
	if after.CPUNS <= before.CPUNS {
		return 0, errors.New("the target used no CPU time")
	}
	return float64(after.Waits-before.Waits) / float64(after.CPUNS-before.CPUNS) * 1e9, nil
}

func (t *target) pid() string { return strconv.Itoa(t.cmd.Process.Pid) }
