// Package collect observes a live process: it attaches the collectors that
// were asked for, opens and closes their windows together, and hands what they
// bring home to a recording.
package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"contend/internal/collect/capability"
	"contend/internal/collect/endpoint"
	"contend/internal/collect/gowait"
	"contend/internal/collect/offcpu"
	"contend/internal/collect/operations"
	"contend/internal/collect/privilege"
	"contend/internal/collect/symbolize"
	"contend/internal/collect/target"
	"contend/internal/recording"
)

// Options say what to observe, and with what.
type Options struct {
	PID     int              // 0 when only the endpoint is recorded
	Target  recording.Target // Kind, Name, Workload and Arm, where the caller knows better
	Collect []string         // names of collectors, see recording.Waits and its neighbours
	// Named says that the user named the collectors: one that cannot run is then
	// an error. Otherwise it is left out, and the manifest says why.
	Named   bool
	Waits   string // gowait.ModeAuto, ModeLocks or ModeAll
	Holders string // one of HolderModes; "" is off
	// MaxOverhead is the share of the target's time, or of a core, that capturing
	// every wait may cost in the mode auto; 0 is the default.
	MaxOverhead float64
	Pprof       string        // base URL of the target's net/http/pprof
	PprofCA     string        // file of certificates to trust there beside the system's
	Length      time.Duration // planned, of the window; what is sampled over time is asked for as much
	// DropPrivileges gives up, once every probe is in place, what is not needed to
	// record: of the whole process, which cannot attach again.
	DropPrivileges bool
	Labels         map[string]string
	Version        string              // of this contend
	Ops            *operations.Counter // counts the target's operations; may be nil
	// Host reads the host at both edges of the window; at the second it gets the
	// first reading and says what disturbed the window between them. May be nil.
	Host func(before *recording.HostState) (now *recording.HostState, disturbed []string)
}

// ErrInterrupted says that the user ended it before anything was recorded.
var ErrInterrupted = errors.New("interrupted while attaching: nothing was recorded")

// Known lists every collector's name, in the order in which they are opened.
var Known = []string{recording.Waits, recording.OffCPU, recording.Mutex, recording.Block, recording.Fgprof, recording.CPU}

// HolderModes lists the ways to see who held a lock: in bursts, at every release,
// or not.
var HolderModes = []string{gowait.HoldersBursts, gowait.HoldersExact, gowait.HoldersOff}

// A collector observes the target between Start and Stop.
type collector interface {
	Start() (monoNS int64, err error)
	Stop() (monoNS int64, err error)
	Capture() (*recording.Capture, error)
	Close() error
}

// Session is a set of collectors attached to one process.
type Session struct {
	opt        Options
	process    *target.Process // nil for an endpoint alone
	binary     *symbolize.Binary
	collectors []collector
	offcpu     *offcpu.Collector // among them, or nil
	skipped    []recording.Skipped
	warnings   []string
}

// Attach finds the target and puts every probe in place. Nothing counts yet.
func Attach(ctx context.Context, opt Options) (_ *Session, err error) {
	s := &Session{opt: opt}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if opt.PID != 0 {
		if s.process, err = target.Find(opt.PID); err != nil {
			return nil, err
		}
	}
	refused, err := s.attachAll() // the first collector's reason for not running
	if err != nil {
		return nil, err
	}
	for _, name := range s.endpointNames() {
		c, err := endpoint.Open(ctx, opt.Pprof, []string{name}, endpoint.Options{Duration: opt.Length, CAFile: opt.PprofCA, GoVersion: s.goVersion()})
		if errors.Is(err, endpoint.ErrNoProfile) && !opt.Named {
			s.skipped = append(s.skipped, recording.Skipped{Name: name, Reason: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		s.collectors = append(s.collectors, c)
	}
	if len(s.collectors) == 0 {
		return nil, fmt.Errorf("no collector can run here: %w", refused)
	}
	if opt.Ops != nil {
		// The last one: its edges lag behind the others' by the same round trip.
		c, err := operations.Open(ctx, opt.Ops)
		if err != nil {
			return nil, err
		}
		s.collectors = append(s.collectors, c)
	}
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	if opt.DropPrivileges {
		if err := privilege.Keep(privilege.Recorder); err != nil && !errors.Is(err, privilege.ErrCgo) {
			return nil, err
		}
	}
	return s, nil
}

// attachAll opens the collectors that need the kernel, at once: it takes each of them
// about as long to have its programs verified. refused is why the first one that is
// left out cannot run here.
func (s *Session) attachAll() (refused, err error) {
	var names []string
	for _, name := range []string{recording.Waits, recording.OffCPU} {
		if slices.Contains(s.opt.Collect, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 && s.process != nil {
		if s.binary, err = symbolize.Open(s.process.Exe); err != nil {
			return nil, fmt.Errorf("cannot collect %s: %w", names[0], err)
		}
	}
	opened, errs := make([]collector, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { opened[i], errs[i] = s.attach(name) })
	}
	wg.Wait()
	for i := range names {
		if errs[i] == nil {
			s.collectors = append(s.collectors, opened[i])
		}
	}
	for i, name := range names {
		if errs[i] == nil {
			continue
		}
		// Only what this host lacks may be left out. A target that is gone or
		// not understood is no reason to record something else in silence.
		if s.opt.Named || !IsMissing(errs[i]) {
			return nil, fmt.Errorf("cannot collect %s: %w", name, errs[i])
		}
		s.skipped = append(s.skipped, recording.Skipped{Name: name, Reason: errs[i].Error()})
		if refused == nil {
			refused = errs[i]
		}
	}
	return refused, nil
}

// attach opens one of the collectors that need the kernel.
func (s *Session) attach(name string) (collector, error) {
	if s.process == nil {
		return nil, errors.New("it needs a process, not only an endpoint")
	}
	if err := capability.Preflight(name, s.process.UID); err != nil {
		return nil, err
	}
	if name == recording.Waits {
		return gowait.Open(s.process, s.binary, gowait.Options{
			Holders: s.opt.Holders, Mode: s.opt.Waits, MaxOverhead: s.opt.MaxOverhead, Length: s.opt.Length,
			Others: s.offcpuCost,
		})
	}
	o := offcpu.Options{Length: s.opt.Length}
	if s.opt.Waits == gowait.ModeAuto {
		o.MaxOverhead = s.opt.MaxOverhead / offcpuShare
	}
	c, err := offcpu.Open(s.process, s.binary, o)
	s.offcpu = c
	return c, err
}

// offcpuShare is the bound ÷ what thread off-CPU may cost of it. Waits have the rest.
const offcpuShare = 4

func (s *Session) offcpuCost() time.Duration {
	if s.offcpu == nil {
		return 0
	}
	return s.offcpu.Cost()
}

func (s *Session) endpointNames() []string {
	var names []string
	for _, n := range s.opt.Collect {
		if n != recording.Waits && n != recording.OffCPU {
			names = append(names, n)
		}
	}
	return names
}

func (s *Session) goVersion() string {
	if s.process == nil {
		return ""
	}
	return s.process.GoVersion
}

// Process is the observed process; nil for an endpoint alone.
func (s *Session) Process() *target.Process { return s.process }

// Record observes one window and writes it to w: everything but the commit,
// so that the caller can still refuse the run.
func (s *Session) Record(ctx context.Context, w *recording.Writer, win Window) (*recording.Manifest, error) {
	m := &recording.Manifest{
		Tool:     recording.Tool{Version: s.opt.Version, Go: runtime.Version()},
		Target:   s.target(),
		Skipped:  s.skipped,
		Labels:   s.opt.Labels,
		Overhead: &recording.Overhead{},
		Warnings: slices.Clone(s.warnings),
	}
	if s.opt.Host != nil {
		before, _ := s.opt.Host(nil)
		m.Host = &recording.HostWindow{Before: before}
	}
	if err := win.Begin(ctx); err != nil {
		return nil, err
	}
	cpu, cpuErr := s.cpu()
	program := s.program()
	m.Started, m.StartMonoNS = time.Now(), monotonic()
	if err := s.each(collector.Start); err != nil {
		return nil, err
	}
	end, err := win.End(ctx)
	stopped := s.each(collector.Stop)
	m.DurationNS = monotonic() - m.StartMonoNS
	if err = errors.Join(err, stopped); err != nil {
		return nil, err
	}
	m.Ended, m.Operations = end.Reason, end.Operations
	if s.process != nil && s.process.Stopped() {
		m.Warnings = append(m.Warnings, fmt.Sprintf("the target is stopped (SIGSTOP, or a debugger): none of it runs, and its waits have no end; kill -CONT %d resumes it", s.process.PID))
	}
	if after, err := s.cpu(); err == nil && cpuErr == nil {
		m.Target.CPUNS = int64(after - cpu)
	}
	if now := s.program(); program != nil && now != nil && !os.SameFile(program, now) {
		m.Warnings = append(m.Warnings, "the target replaced its program (exec) in the window: what came after is not captured")
	}
	if end.Reason != recording.EndedDuration {
		m.Warnings = append(m.Warnings, shortened(end.Reason, time.Duration(m.DurationNS)))
	}
	if m.Host != nil {
		var disturbed []string
		m.Host.After, disturbed = s.opt.Host(m.Host.Before)
		m.Warnings = append(m.Warnings, disturbed...)
	}
	if err := s.harvest(w, m); err != nil {
		return nil, err
	}
	if end.Workload != nil {
		if err := w.Workload(end.Workload); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// shortened is the warning of a window that did not last as long as it was to.
func shortened(reason string, lasted time.Duration) string {
	what := "interrupted"
	if reason == recording.EndedTargetExit {
		what = "the target exited"
	}
	return fmt.Sprintf("%s: the recording covers %s", what, lasted.Round(time.Millisecond))
}

// harvest writes every collector's profiles and completes the manifest. A
// window in which nothing could be seen is an error: an empty recording would
// read as the absence of contention.
func (s *Session) harvest(w *recording.Writer, m *recording.Manifest) error {
	written := 0
	for _, c := range s.collectors {
		got, err := c.Capture()
		if err != nil {
			return err
		}
		for name, p := range got.Profiles {
			if name != recording.Parks { // of parts of the window
				p.DurationNanos = m.DurationNS
			}
			p.TimeNanos = m.Started.UnixNano()
			if err := w.Profile(name, p); err != nil {
				return err
			}
			written++
		}
		if cost := got.Overhead; cost.ProbeHits > 0 {
			cost.Share = overheadShare(&cost, m)
			got.Collector.Overhead = &cost
		}
		m.Collectors = append(m.Collectors, got.Collector)
		m.Warnings = append(m.Warnings, got.Warnings...)
		if got.Operations != nil {
			m.Operations = within(got, &m.Collectors[0])
		}
		m.Overhead.ProbeHits += got.Overhead.ProbeHits
		m.Overhead.BPFRunNS += got.Overhead.BPFRunNS
		m.Overhead.TrapNS += got.Overhead.TrapNS
	}
	if written == 0 {
		return fmt.Errorf("nothing was captured: %s", strings.Join(m.Warnings, "; "))
	}
	m.Overhead.Share = overheadShare(m.Overhead, m)
	if bound := s.opt.MaxOverhead; s.opt.Waits == gowait.ModeAuto && bound > 0 && m.Overhead.Share > 1.5*bound {
		m.Warnings = append(m.Warnings, fmt.Sprintf("capturing cost %.1f %%, --max-overhead is %.1f %%", 100*m.Overhead.Share, 100*bound))
	}
	return nil
}

// overheadShare is a cost's share of the target's CPU time. An idle target's would
// make any cost look like a catastrophe; one core is the least that it is held
// against.
func overheadShare(o *recording.Overhead, m *recording.Manifest) float64 {
	return float64(o.BPFRunNS+o.TrapNS) / float64(max(m.Target.CPUNS, m.DurationNS, 1))
}

// within is how many of the operations that a collector counted fall into
// another's window. The two differ by a round trip or two.
func within(c *recording.Capture, window *recording.Collector) *recording.Operations {
	if c.Collector.EndMonoNS <= c.Collector.StartMonoNS {
		return c.Operations // too short to tell
	}
	scale := float64(window.EndMonoNS-window.StartMonoNS) / float64(c.Collector.EndMonoNS-c.Collector.StartMonoNS)
	return &recording.Operations{Name: c.Operations.Name, Count: int64(math.Round(float64(c.Operations.Count) * scale))}
}

// Close detaches everything.
func (s *Session) Close() error {
	var errs []error
	for _, c := range slices.Backward(s.collectors) {
		errs = append(errs, c.Close())
	}
	s.collectors = nil
	if s.binary != nil {
		errs = append(errs, s.binary.Close())
		s.binary = nil
	}
	return errors.Join(errs...)
}

// each opens or closes every collector's window, and goes on after an error so
// that none is left counting.
func (s *Session) each(edge func(collector) (int64, error)) error {
	var errs []error
	for _, c := range s.collectors {
		_, err := edge(c)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *Session) target() recording.Target {
	t := s.opt.Target
	if p := s.process; p != nil {
		t.PID, t.StartTime, t.BootID = p.PID, p.StartTime, p.BootID
		t.BuildID, t.Module, t.Version, t.Go = p.BuildID, p.Module, p.ModuleVersion, p.GoVersion
		if t.Name == "" {
			t.Name = p.Name
		}
	}
	if t.Kind == "endpoint" && t.Name == "" {
		t.Name = "endpoint"
	}
	return t
}

// program is the file that the process runs, nil when it cannot be told.
func (s *Session) program() os.FileInfo {
	if s.process == nil {
		return nil
	}
	info, err := os.Stat(s.process.Exe)
	if err != nil {
		return nil // it has exited
	}
	return info
}

func (s *Session) cpu() (time.Duration, error) {
	if s.process == nil {
		return 0, errors.New("no process")
	}
	return s.process.CPUTime()
}

// monotonic reads CLOCK_MONOTONIC, the clock of bpf_ktime_get_ns.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot fail with this clock on Linux
	}
	return ts.Nano()
}

// WriteReadyFile tells whoever waits for it that every probe is in place.
func WriteReadyFile(path string) error {
	return os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644)
}
