package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/collect"
	"contend/internal/collect/gowait"
	"contend/internal/collect/operations"
	"contend/internal/host"
	"contend/internal/input"
	"contend/internal/recording"
	"contend/internal/workload"
)

// recorderMemory is where the recorder begins to collect garbage more often, rather
// than grow: it is a guest on the target's machine. A recording that needs more than
// that still gets it.
const recorderMemory = 96 << 20

// recordOptions are record's flags.
type recordOptions struct {
	pids     pids
	comm     string
	workload string
	arm      string
	command  []string
	output   string
	force    bool
	duration time.Duration
	timed    bool // --duration was given
	collect  []string
	named    bool // --collect was given
	waits    string
	overhead percent
	holders  string
	pprof    string
	pprofCA  string
	ops      string
	counter  *operations.Counter // from ops
	labels   map[string]string
	ready    string
	strict   bool
	flags    *workloadFlags
	settings workload.Settings // of the workload, where that is the target
}

func newRecord() *cobra.Command {
	o := recordOptions{overhead: 0.02}
	c := &cobra.Command{
		Use:   "record [--pid PID… | --comm NAME | --workload NAME [--arm ARM] | -- COMMAND…] [--pprof URL]",
		Short: "Record where a running Go program waits",
		Long: "Record attaches to a running Go process, or starts one, and writes where its goroutines\n" +
			"and threads waited into a folder of plain pprof files. With no target it records the\n" +
			"hand-over workload's baseline arm. Ctrl-C ends it early and keeps what was seen.\n" +
			"Several processes, by --pid more than once or by --comm, are recorded over one window,\n" +
			"each into a recording of its own below the output: report and diff take that for a series.",
		Example: "  contend record --pid 4711 -o before\n" +
			"  contend record --workload handover --arm batched -o candidate\n" +
			"  contend record -d 30s -- ./broker --config broker.conf",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			o.timed, o.named = cmd.Flags().Changed("duration"), cmd.Flags().Changed("collect")
			if err := o.check(); err != nil {
				return err
			}
			return runRecord(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.Var(&o.pids, "pid", "the process to attach to; may be given again for more")
	f.StringVar(&o.comm, "comm", "", "attach to all processes of this name, as ps shows it")
	f.StringVar(&o.workload, "workload", "", "record one of contend's own workloads: "+workloadNames())
	f.StringVar(&o.arm, "arm", "", "the workload's arm (default its first)")
	f.StringVarP(&o.output, "output", "o", "", "the folder to write (default ./NAME-YYYYMMDD-HHMMSS)")
	f.BoolVar(&o.force, "force", false, "replace the output, if it is a recording")
	f.DurationVarP(&o.duration, "duration", "d", 10*time.Second, "how long to record; a workload's window is counted in messages, and lasts at least as long as is given here")
	f.StringSliceVar(&o.collect, "collect", []string{recording.Waits, recording.OffCPU}, "what to collect: "+strings.Join(collect.Known, ", "))
	f.StringVar(&o.waits, "waits", gowait.ModeAuto, "which waits to probe: all; locks; or auto, all while that costs at most --max-overhead")
	f.Var(&o.overhead, "max-overhead", "what capturing waits may cost in the mode auto, of the target's CPU time or of one core")
	f.StringVar(&o.pprof, "pprof", "", "also collect the target's own mutex and block profiles, from http://host:port/debug/pprof; alone, it needs no privilege. https://, user:password@ and unix:///path/of/socket are understood")
	f.StringVar(&o.pprofCA, "pprof-ca", "", "trust the certificates in this PEM file, too, at the endpoint")
	addHolders(f, &o.holders)
	addOpsFlag(f, &o.ops)
	f.StringToStringVar(&o.labels, "label", nil, "keep a label, key=value, in the recording")
	f.StringVar(&o.ready, "ready-file", "", "write this file once every probe is in place")
	f.BoolVar(&o.strict, "strict", false, "exit 5 if data was lost")
	o.flags = addWorkloadFlags(f)
	return c
}

// check finds mistakes that need no look at the system.
func (o *recordOptions) check() error {
	targets := 0
	for _, given := range []bool{len(o.pids) > 0, o.comm != "", o.workload != "", len(o.command) > 0} {
		if given {
			targets++
		}
	}
	switch {
	case targets > 1:
		return usagef("name one target: --pid, --comm, --workload or -- COMMAND")
	case o.duration <= 0:
		return usagef("--duration %s: must be positive", o.duration)
	case !slices.Contains([]string{gowait.ModeAuto, gowait.ModeLocks, gowait.ModeAll}, o.waits):
		return usagef("--waits %s: auto, locks or all", o.waits)
	}
	if err := checkHolderMode(o.holders); err != nil {
		return err
	}
	for _, name := range o.collect {
		if !slices.Contains(collect.Known, name) {
			return usagef("--collect %s: unknown; there are %s", name, strings.Join(collect.Known, ", "))
		}
	}
	counter, err := parseOps(o.ops)
	if err != nil {
		return err
	}
	o.counter = counter
	if targets == 0 && o.pprof != "" {
		return o.checkEndpointOnly()
	}
	if targets == 0 {
		o.workload = workloads[0].Name
	}
	if o.workload != "" {
		if o.ops != "" {
			return usagef("--ops: the workload counts its own messages")
		}
		var err error
		if o.arm, o.settings, err = o.flags.choose(o.workload, o.arm); err != nil {
			return err
		}
	}
	if o.pprof != "" && !o.named {
		o.collect = append(slices.Clone(o.collect), recording.Mutex, recording.Block)
	}
	for _, name := range o.collect {
		if o.pprof == "" && o.workload == "" && !slices.Contains([]string{recording.Waits, recording.OffCPU}, name) {
			return usagef("--collect %s comes from the target's endpoint: name it with --pprof URL", name)
		}
	}
	return nil
}

func (o *recordOptions) checkEndpointOnly() error {
	if !o.named {
		o.collect = []string{recording.Mutex, recording.Block}
	}
	for _, name := range o.collect {
		if name == recording.Waits || name == recording.OffCPU {
			return usagef("--collect %s needs a process: add --pid", name)
		}
	}
	return nil
}

func runRecord(ctx context.Context, o recordOptions, stdout, stderr io.Writer) (err error) {
	if err := o.findProcesses(); err != nil {
		return err
	}
	out := o.output
	if out == "" {
		out = fmt.Sprintf("%s-%s", o.name(), time.Now().Format("20060102-150405"))
	}
	if len(o.pids) > 1 {
		if o.pprof != "" || o.ops != "" {
			return usagef("--pprof and --ops are of one process: %d are named", len(o.pids))
		}
		if err := o.recordProcesses(ctx, out, stderr); err != nil {
			return err
		}
		return summarize(out, o.strict, stdout, stderr)
	}
	w, err := recording.Create(out, o.force)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()

	if o.workload != "" {
		err = o.recordWorkload(ctx, w, stderr)
	} else {
		err = o.recordProcess(ctx, w, stderr)
	}
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // what recording took: reading it back takes as much
	return summarize(out, o.strict, stdout, stderr)
}

// addHolders adds the flag that record and experiment have in common.
func addHolders(f *pflag.FlagSet, holders *string) {
	f.StringVar(holders, "holders", collect.HolderModes[0], "when to see who held a lock while others waited: in bursts, exact (at every release of a contended lock), off")
}

func checkHolderMode(holders string) error {
	if !slices.Contains(collect.HolderModes, holders) {
		return usagef("--holders %s: unknown; there are %s", holders, strings.Join(collect.HolderModes, ", "))
	}
	return nil
}

// recordProcess records a running process, a command's, or an endpoint alone.
func (o *recordOptions) recordProcess(ctx context.Context, w *recording.Writer, stderr io.Writer) (err error) {
	opt := o.options()
	switch {
	case len(o.command) > 0:
		cmd, err := startCommand(o.command, stderr)
		if err != nil {
			return err
		}
		defer stopCommand(cmd)
		opt.PID, opt.Target.Kind, opt.Target.Name = cmd.Process.Pid, "command", filepath.Base(o.command[0])
	case len(o.pids) == 1:
		opt.PID, opt.Target.Kind, opt.Host = o.pids[0], "pid", host.Beside(o.pids[0])
	default:
		opt.Target.Kind = "endpoint"
	}
	debug.SetMemoryLimit(recorderMemory)
	s, err := collect.Attach(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.ready != "" {
		if err := collect.WriteReadyFile(o.ready); err != nil {
			return err
		}
	}
	progress := newProgress(stderr)
	win := collect.Timed{Length: o.duration, Process: s.Process(), Progress: progress.show}
	m, err := s.Record(ctx, w, win)
	progress.clear()
	if err != nil {
		return err
	}
	return w.Commit(m)
}

// recordWorkload records one window of a workload run as a child.
func (o *recordOptions) recordWorkload(ctx context.Context, w *recording.Writer, stderr io.Writer) error {
	var length time.Duration
	if o.timed {
		length = o.duration
	}
	live := liveWorkload(o.workload, o.settings, o.options(), stderr)
	return live.RecordOnce(ctx, o.arm, length, o.ready, w)
}

func (o *recordOptions) options() collect.Options {
	return collect.Options{
		Collect: o.collect, Named: o.named, Length: o.duration, Waits: o.waits, MaxOverhead: float64(o.overhead),
		Holders: o.holders, Pprof: o.pprof, PprofCA: o.pprofCA, Ops: o.counter, Labels: maps.Clone(o.labels), Version: toolVersion(), Host: host.Edge,
		DropPrivileges: true,
	}
}

func (o *recordOptions) name() string {
	switch {
	case o.workload != "":
		return o.workload + "-" + o.arm
	case len(o.command) > 0:
		return filepath.Base(o.command[0])
	case o.comm != "":
		return o.comm
	case len(o.pids) > 0:
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", o.pids[0])); err == nil {
			return strings.TrimSuffix(filepath.Base(exe), " (deleted)")
		}
	}
	return "recording"
}

// summarize ends record with the five locks that took the most.
func summarize(path string, strict bool, stdout, stderr io.Writer) error {
	side, _, err := input.Side(path)
	if err != nil {
		return err
	}
	r, err := analyze.NewReport(side, analyze.Options{Limit: 5})
	if err != nil {
		return err
	}
	for _, warning := range r.Warnings {
		fmt.Fprintln(stderr, "contend: warning: "+render.Clean(warning))
	}
	r.Warnings = nil // said already
	if err := render.Report(stdout, r, render.Text, textOptions(stdout, 5)); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nwrote %s   look closer: contend report %s\n", render.Clean(path), render.Clean(path))
	if strict && len(r.Lost) > 0 {
		return fmt.Errorf("%w: %s", errLost, lostNames(r.Lost))
	}
	return nil
}

func lostNames(lost map[string]int64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(lost)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, lost[k]))
	}
	return strings.Join(parts, ", ")
}

// startCommand starts the command to record. Its output goes to stderr, so that
// contend's own answer stays alone on stdout.
func startCommand(argv []string, stderr io.Writer) (*exec.Cmd, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", argv[0], err)
	}
	return cmd, nil
}

// stopCommand ends the command that startCommand started: politely, then by force.
func stopCommand(cmd *exec.Cmd) {
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }() // its exit status is its own affair
	_ = cmd.Process.Signal(os.Interrupt)        // an error means that it is gone already
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		_ = cmd.Process.Kill()
		<-done
	}
}

// progress is the line that counts the seconds, on a terminal only.
type progress struct{ w io.Writer }

func newProgress(w io.Writer) progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return progress{w}
	}
	return progress{}
}

func (p progress) show(elapsed, of time.Duration) {
	if p.w != nil {
		fmt.Fprintf(p.w, "\rrecording %s of %s ", elapsed.Round(time.Second), of)
	}
}

func (p progress) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
