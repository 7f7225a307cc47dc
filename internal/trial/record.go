package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"contend/internal/recording"
)

// Recorder makes recordings with a built contend, as a user would.
type Recorder struct {
	Contend string // the executable
	Target  string // the lock target's executable
	Window  time.Duration
}

// attempts bounds how often a run that failed its own checks is repeated.
const attempts = 6

// Round records every arm of a regime once, in random order, into
// DIR/ARM/run-NNN. Arms already recorded are left alone, so that a series that
// was cut short can be resumed.
func (r *Recorder) Round(ctx context.Context, dir string, g Regime, round int) error {
	arms := g.Arms()
	rand.Shuffle(len(arms), func(i, j int) { arms[i], arms[j] = arms[j], arms[i] })
	for i, arm := range arms {
		out := filepath.Join(dir, arm, fmt.Sprintf("run-%03d", round))
		if _, err := recording.Open(out); err == nil {
			continue
		}
		labels := map[string]string{
			recording.ExperimentLabel: g.String(),
			recording.PairLabel:       itoa(round),
			recording.OrderLabel:      itoa((round-1)*len(arms) + i + 1),
		}
		var err error
		for range attempts {
			if err = r.run(ctx, out, g, arm, labels); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("%s %s, round %d: %w", g, arm, round, err)
		}
	}
	return nil
}

func (r *Recorder) run(ctx context.Context, out string, g Regime, arm string, labels map[string]string) error {
	if err := os.RemoveAll(out + recording.Incomplete); err != nil {
		return err
	}
	if g.Subject == "handover" {
		return r.handover(ctx, out, g, labels)
	}
	return r.lock(ctx, out, g, arm, labels)
}

func (r *Recorder) contend(ctx context.Context, out string, window time.Duration, labels map[string]string, args ...string) error {
	args = append([]string{"record", "-o", out, "-d", window.String(), "--collect", recording.Waits, "--waits", "locks"}, args...)
	for k, v := range labels {
		args = append(args, "--label", k+"="+v)
	}
	if b, err := exec.CommandContext(ctx, r.Contend, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("contend record: %w: %s", err, strings.TrimSpace(string(b)))
	}
	return nil
}

func (r *Recorder) handover(ctx context.Context, out string, g Regime, labels map[string]string) error {
	window := 2 * r.Window // its waits are fewer and come in clumps
	return r.contend(ctx, out, window, labels, "--workload", "handover", "--arm", "baseline", "--producers", "100",
		"--in-flight", itoa(g.inFlight), "--rate", fmt.Sprint(g.rate), "--window-messages", "1000")
}

// lock records a fresh lock target, then tells the recording how many requests
// were served in its window.
func (r *Recorder) lock(ctx context.Context, out string, g Regime, arm string, labels map[string]string) (err error) {
	// In real time: the design holds where the target's threads wake when they
	// should, whatever else the host does. They sleep most of the time.
	cmd := exec.CommandContext(ctx, "chrt", "--fifo", "1", r.Target, "-workers", itoa(g.workers), "-hold", hold(arm).String(), "-think", g.think.String())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, cmd.Process.Kill())
			_ = cmd.Wait() // killed
		}
	}()
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("the lock target said %q: %w", line, err)
	}
	if err := r.contend(ctx, out, r.Window, labels, "--pid", itoa(cmd.Process.Pid)); err != nil {
		return err
	}
	if err := stdin.Close(); err != nil {
		return err
	}
	var timeline [][2]int64
	if err := json.NewDecoder(lines).Decode(&timeline); err != nil {
		return fmt.Errorf("the lock target's timeline: %w", err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	return countOperations(out, timeline)
}

// countOperations writes into a recording what its target did in the window.
func countOperations(path string, timeline [][2]int64) error {
	rec, err := recording.Open(path)
	if err != nil {
		return err
	}
	m := &rec.Manifest
	if len(m.Collectors) == 0 {
		return fmt.Errorf("%s has no collector", path)
	}
	from, okFrom := countAt(timeline, m.Collectors[0].StartMonoNS)
	to, okTo := countAt(timeline, m.Collectors[0].EndMonoNS)
	if !okFrom || !okTo {
		return fmt.Errorf("%s: the target's timeline does not cover the window", path)
	}
	m.Operations = &recording.Operations{Name: "request", Count: int64(to - from + 0.5)}
	return recording.WriteJSON(filepath.Join(path, recording.ManifestFile), m)
}

// countAt is the number of requests completed by a moment, between two entries
// of a timeline by the straight line.
func countAt(timeline [][2]int64, at int64) (float64, bool) {
	i := sort.Search(len(timeline), func(i int) bool { return timeline[i][0] >= at })
	if i == 0 || i == len(timeline) {
		return 0, false
	}
	a, b := timeline[i-1], timeline[i]
	return float64(a[1]) + float64(b[1]-a[1])*float64(at-a[0])/float64(b[0]-a[0]), true
}
