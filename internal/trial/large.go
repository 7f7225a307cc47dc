package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
)

// Shape of a made-up profile: that of a big service's block profile.
const (
	largeFunctions = 8_000
	largeLocations = 30_000
	largeDepth     = 24 // frames of a stack on average
)

// LargeProfile makes a profile of that many distinct stacks. Profiles of equal
// seed have the same stacks; side 1 has other values, and one stack in a
// hundred is its own.
func LargeProfile(stacks int, seed uint64, side int) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "contentions", Unit: "count"}, Period: 1,
		DurationNanos: int64(10 * time.Second),
	}
	shape := rand.New(rand.NewPCG(seed, 0))
	values := rand.New(rand.NewPCG(seed, uint64(1+side)))
	for i := range largeFunctions {
		name := fmt.Sprintf("example.com/service/internal/module%02d.(*Component%d).Handle%d", i%40, i%400, i)
		p.Function = append(p.Function, &profile.Function{ID: uint64(i + 1), Name: name, Filename: fmt.Sprintf("/src/service/internal/module%02d/file%d.go", i%40, i%400)})
	}
	lock := &profile.Function{ID: largeFunctions + 1, Name: "sync.(*Mutex).Lock", Filename: "/usr/local/go/src/sync/mutex.go"}
	p.Function = append(p.Function, lock)
	leaf := &profile.Location{ID: 1, Line: []profile.Line{{Function: lock, Line: 46}}}
	p.Location = append(p.Location, leaf)
	for i := range largeLocations {
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 2), Address: uint64(0x400000 + 16*i),
			Line: []profile.Line{{Function: p.Function[shape.IntN(largeFunctions)], Line: int64(1 + shape.IntN(500))}}})
	}
	for i := range stacks {
		depth := largeDepth/2 + shape.IntN(largeDepth)
		s := &profile.Sample{Location: make([]*profile.Location, 0, depth+1), Value: []int64{1 + values.Int64N(1000), 1 + values.Int64N(int64(time.Second))}}
		s.Location = append(s.Location, leaf)
		for range depth {
			s.Location = append(s.Location, p.Location[1+shape.IntN(largeLocations)])
		}
		if i%100 == 0 { // a stack that the other side does not have
			s.Location = append(s.Location, p.Location[1+side])
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// WriteLarge writes both sides' profiles, packed or not.
func WriteLarge(base, candidate string, stacks int, packed bool) error {
	for side, path := range []string{base, candidate} {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		p := LargeProfile(stacks, 7, side)
		write := p.WriteUncompressed
		if packed {
			write = p.Write
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Cost is what a command took.
type Cost struct {
	Command string
	Wall    time.Duration
	CPU     time.Duration
	RSS     int64 // peak, bytes
	Exit    int
	Last    string // last line it wrote to standard error
}

// Measure runs a command and returns its cost. The measuring process must be
// small: Linux counts a parent's memory at the fork towards the child's peak.
func Measure(ctx context.Context, name string, args ...string) (Cost, error) {
	return measure(ctx, nil, name, args...)
}

// measure is Measure with what the command prints; out may be nil.
func measure(ctx context.Context, out io.Writer, name string, args ...string) (Cost, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout = out
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return Cost{}, err
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	c := Cost{Command: name + " " + strings.Join(args, " "), Wall: time.Since(began), Exit: cmd.ProcessState.ExitCode(),
		CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), Last: lines[len(lines)-1]}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.RSS = u.Maxrss << 10
	}
	return c, nil
}

// host describes where figures were taken.
func hostLine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s, load %.1f", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), loadAverage())
}
