package offcpu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"contend/bpf"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
)

// Capture gives the offcpu profile of the closed window: sample types
// switches/count, sleeping/nanoseconds and runqueue/nanoseconds. Sleeping and
// run-queue time add up to the time off the CPU.
func (c *Collector) Capture() (*recording.Capture, error) {
	if c.raw == nil {
		return nil, errors.New("offcpu: no closed window to capture")
	}
	r := newRenderer(c)
	p, err := r.render(c.raw)
	if err != nil {
		return nil, err
	}
	counters := maps.Clone(c.raw.counters)
	counters[counterUnnamedKernel] = r.unnamed
	out := &recording.Capture{
		Profiles: map[string]*profile.Profile{recording.OffCPU: p},
		Collector: recording.Collector{
			Name:        recording.OffCPU,
			StartMonoNS: c.begin, EndMonoNS: c.end,
			Settings: c.settings(),
			Counters: counters,
			Lost:     slices.Clone(lostNames),
			Thinned:  c.thinned.describe(),
		},
		Overhead: c.raw.cost.since(*c.before.Load()),
		Warnings: r.warnings,
	}
	if w := c.thinned.warning(); w != "" {
		out.Warnings = append(out.Warnings, w)
	}
	if !c.raw.cost.known {
		out.Warnings = append(out.Warnings, "offcpu: its own cost is unknown: BPF run-time statistics need CAP_SYS_ADMIN")
	}
	return out, nil
}

func (c *Collector) settings() map[string]string {
	return map[string]string{
		"runqueue":          c.runqueue,    // how sleeping is told from waiting for a CPU
		"runnable":          "sched_yield", // what the state runnable means; other involuntary switches are preempted
		"kernel_stacks":     strconv.FormatBool(!c.opts.NoKernelStacks),
		"locked_goroutines": strconv.FormatBool(c.lockedg),
		"max_stacks":        strconv.FormatUint(uint64(c.opts.MaxStacks), 10),
		"max_sums":          strconv.FormatUint(uint64(c.opts.MaxSums), 10),
		"stack_depth":       strconv.Itoa(len(bpf.OffcpuStack{}.Pcs)),
	}
}

// renderer turns a harvest into a profile.
type renderer struct {
	c        *Collector
	profile  *profile.Profile
	in       *symbolize.Interner
	native   *symbolize.Native
	kernel   map[uint64]string // nil where the kernel hides its symbols
	unnamed  int64             // kernel stacks without names
	warnings []string
}

func newRenderer(c *Collector) *renderer {
	nanoseconds := func(name string) *profile.ValueType { return &profile.ValueType{Type: name, Unit: "nanoseconds"} }
	p := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "switches", Unit: "count"}, nanoseconds("sleeping"), nanoseconds("runqueue"),
		},
		DefaultSampleType: "sleeping",
		PeriodType:        &profile.ValueType{Type: "switches", Unit: "count"},
		Period:            1,
		TimeNanos:         time.Now().UnixNano() - (monotonic() - c.begin),
		DurationNanos:     c.end - c.begin,
	}
	r := &renderer{c: c, profile: p, in: symbolize.NewInterner(p, c.binary, c.process.Bias)}
	// A target that is gone has no maps: what is not Go stays unknown.
	r.native, _ = symbolize.OpenNative(c.process.PID)
	r.in.UseNative(r.native)
	return r
}

func (r *renderer) render(h *harvest) (*profile.Profile, error) {
	if !r.c.opts.NoKernelStacks {
		r.nameKernel(h)
	}
	keys := make([]bpf.OffcpuOffKey, 0, len(h.sums))
	for k := range h.sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	for _, k := range keys {
		r.profile.Sample = append(r.profile.Sample, r.sample(h, k, h.sums[k]))
	}
	if err := r.profile.CheckValid(); err != nil {
		return nil, fmt.Errorf("offcpu: the profile is malformed: %w", err)
	}
	return r.profile, nil
}

// nameKernel resolves all kernel addresses of the harvest at once.
func (r *renderer) nameKernel(h *harvest) {
	var addrs []uint64
	for k := range h.sums {
		s := h.stacks[k.Kernel]
		addrs = append(addrs, s.Pcs[:s.N]...)
	}
	if len(addrs) == 0 {
		return
	}
	names, err := kernelNames(r.c.opts.Kallsyms, addrs)
	if err != nil {
		r.warnings = append(r.warnings, fmt.Sprintf("offcpu: kernel frames read [kernel]: %v", err))
	}
	r.kernel = names
}

func (r *renderer) sample(h *harvest, k bpf.OffcpuOffKey, v bpf.OffcpuOffSum) *profile.Sample {
	user := r.userStack(h, k)
	s := &profile.Sample{
		Location: append(r.kernelStack(h, k), user...),
		Value:    []int64{int64(v.Count), int64(v.Sleeping), int64(v.Runqueue)},
		Label:    map[string][]string{recording.LabelState: {stateName(k.State)}},
		NumLabel: map[string][]int64{
			recording.LabelDuration: {1 << k.Bucket},
			recording.LabelMax:      {int64(v.Max)},
		},
		NumUnit: map[string][]string{
			recording.LabelDuration: {"nanoseconds"},
			recording.LabelMax:      {"nanoseconds"},
		},
	}
	if k.State == uint8(bpf.OffcpuOffStateOFF_BLOCKED) { // else it waits for nothing but a CPU
		s.Label[recording.LabelClass] = []string{classify(functionNames(user), bpf.OffcpuOffFlags(k.Flags))}
	}
	if site := r.site(h, k.Waker); site != "" {
		s.Label[recording.LabelWaker] = []string{site}
	}
	switch {
	case k.Edge&uint8(bpf.OffcpuOffEdgeOFF_EDGE_END) != 0:
		s.Label[recording.LabelOpen] = []string{"end"}
	case k.Edge&uint8(bpf.OffcpuOffEdgeOFF_EDGE_START) != 0:
		s.Label[recording.LabelOpen] = []string{"start"}
	}
	return s
}

// site names where the target woke one of its own threads: the first frame of a
// stack outside the packages that make system calls.
func (r *renderer) site(h *harvest, id uint64) string {
	stack, ok := h.stacks[id]
	if id == 0 || !ok {
		return ""
	}
	for _, loc := range r.in.Stack(stack.Pcs[:stack.N], true) {
		for _, line := range loc.Line {
			if f := line.Function; !inSyscallCode(f.Name) {
				return fmt.Sprintf("%s %s:%d", f.Name, f.Filename, line.Line)
			}
		}
	}
	return ""
}

func inSyscallCode(function string) bool {
	for _, pkg := range [...]string{"runtime.", "syscall.", "internal/", "golang.org/x/sys/"} {
		if strings.HasPrefix(function, pkg) {
			return true
		}
	}
	return false
}

func stateName(state uint8) string {
	switch bpf.OffcpuOffState(state) {
	case bpf.OffcpuOffStateOFF_BLOCKED:
		return "blocked"
	case bpf.OffcpuOffStateOFF_RUNNABLE:
		return "runnable"
	}
	return "preempted"
}

func (r *renderer) userStack(h *harvest, k bpf.OffcpuOffKey) []*profile.Location {
	s, ok := h.stacks[k.User]
	switch {
	case k.User == 0:
		return []*profile.Location{r.in.Mark("[stack lost]")}
	case !ok || s.N == 0: // it slept before the attach and could not be read
		return []*profile.Location{r.in.Mark("[unknown]")}
	}
	pcs := s.Pcs[:s.N]
	// After SYSCALL and in a parked goroutine the first address is where the
	// thread goes on; where it was interrupted, it is of the instruction itself.
	leafIsReturn := k.Flags&uint8(bpf.OffcpuOffFlagsOFF_SYSCALL|bpf.OffcpuOffFlagsOFF_LOCKED) != 0
	if k.AtSp != 0 && frameless(r.c.binary, pcs[0]-r.c.process.Bias, leafIsReturn) {
		pcs = slices.Insert(slices.Clone(pcs), 1, k.AtSp)
	}
	stack := r.in.Stack(pcs, leafIsReturn)
	if s.Flags != 0 {
		stack = append(stack, r.in.Mark("[truncated]"))
	}
	return stack
}

// kernelStack names the kernel's part, without the scheduler's own switch and
// what this very program adds on top of it.
func (r *renderer) kernelStack(h *harvest, k bpf.OffcpuOffKey) []*profile.Location {
	s := h.stacks[k.Kernel]
	if k.Kernel == 0 || s.N == 0 {
		return nil
	}
	if r.kernel == nil {
		r.unnamed++
		return []*profile.Location{r.in.Kernel("[kernel]")}
	}
	names := make([]string, s.N)
	first := 0
	for i, pc := range s.Pcs[:s.N] {
		if names[i] = r.kernel[pc]; names[i] == "" {
			names[i] = "[kernel]"
		}
		if names[i] == "__schedule" || names[i] == "schedule" {
			first = i + 1
		}
	}
	stack := make([]*profile.Location, 0, len(names))
	for _, name := range names[first:] {
		stack = append(stack, r.in.Kernel(name))
	}
	return stack
}

// functionNames lists the functions of a stack, innermost first, inlined ones included.
func functionNames(stack []*profile.Location) []string {
	var names []string
	for _, l := range stack {
		for _, line := range l.Line {
			names = append(names, line.Function.Name)
		}
	}
	return names
}

// compareKeys orders samples, so that equal harvests give equal files.
func compareKeys(a, b bpf.OffcpuOffKey) int {
	for _, d := range [][2]uint64{
		{a.User, b.User}, {a.Kernel, b.Kernel}, {a.AtSp, b.AtSp}, {a.Waker, b.Waker},
		{uint64(a.State), uint64(b.State)}, {uint64(a.Edge), uint64(b.Edge)},
		{uint64(a.Flags), uint64(b.Flags)}, {uint64(a.Bucket), uint64(b.Bucket)},
	} {
		if d[0] != d[1] {
			if d[0] < d[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}
