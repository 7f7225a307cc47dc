package host

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v3/common"
	"github.com/shirou/gopsutil/v3/cpu"

	"contend/internal/recording"
)

const cpuDir = "sys/devices/system/cpu/"

// gopsutil returns a context that points the library at the tree.
func (t tree) gopsutil() context.Context {
	return context.WithValue(context.Background(), common.EnvKey, common.EnvMap{
		common.HostProcEnvKey: filepath.Join(string(t), "proc"),
		common.HostSysEnvKey:  filepath.Join(string(t), "sys"),
	})
}

func readCPU(t tree, s *recording.HostState) {
	info, err := cpu.InfoWithContext(t.gopsutil())
	if err != nil || len(info) == 0 {
		return
	}
	s.CPUs = len(info)
	s.CPUModel = info[0].ModelName
	// The flag is the hypervisor's own word (CPUID leaf 1, ECX bit 31), amd64 only.
	if len(info[0].Flags) > 0 && strings.Contains(t.text("proc/cpuinfo"), "flags") {
		virtual := slices.Contains(info[0].Flags, "hypervisor")
		s.Virtual = &virtual
	}
	s.SMT = t.flag(cpuDir + "smt/active")
}

// readFrequency reads cpufreq. Of several CPUs it keeps the lowest minimum, the
// highest maximum and the mean of the current frequency; governors that differ
// are all named.
func readFrequency(t tree, s *recording.HostState) {
	s.Governor = distinct(t, cpuDir+"cpu[0-9]*/cpufreq/scaling_governor")
	s.ScalingDriver = distinct(t, cpuDir+"cpu[0-9]*/cpufreq/scaling_driver")
	s.MinMHz = fold(t, cpuDir+"cpu[0-9]*/cpufreq/scaling_min_freq", slices.Min[[]float64])
	s.MaxMHz = fold(t, cpuDir+"cpu[0-9]*/cpufreq/scaling_max_freq", slices.Max[[]float64])
	s.CurrentMHz = fold(t, cpuDir+"cpu[0-9]*/cpufreq/scaling_cur_freq", mean)
	s.Turbo = turbo(t)
}

// turbo reads the switch of the scaling driver in use: intel_pstate's is
// negative, cpufreq's global one and amd-pstate's per policy are positive.
func turbo(t tree) *bool {
	if off := t.flag(cpuDir + "intel_pstate/no_turbo"); off != nil {
		on := !*off
		return &on
	}
	if on := t.flag(cpuDir + "cpufreq/boost"); on != nil {
		return on
	}
	var any *bool
	for _, path := range t.glob(cpuDir + "cpufreq/policy[0-9]*/boost") {
		if on := t.flag(path); on != nil && (any == nil || *on) {
			any = on
		}
	}
	return any
}

// readIdle finds the idle state with the longest exit latency among those that
// are not disabled: what it costs a CPU to come back is time charged to a wake.
func readIdle(t tree, s *recording.HostState) {
	for _, dir := range t.glob(cpuDir + "cpu[0-9]*/cpuidle/state[0-9]*") {
		if off := t.flag(dir + "/disable"); off != nil && *off {
			continue
		}
		exit := t.float(dir+"/latency", 1)
		if exit == nil || s.IdleExitUS != nil && *exit <= *s.IdleExitUS {
			continue
		}
		s.IdleExitUS, s.IdleState = exit, t.text(dir+"/name")
	}
}

func distinct(t tree, pattern string) string {
	var words []string
	for _, path := range t.glob(pattern) {
		if w := t.text(path); w != "" && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// fold reads the kHz of every matching file and returns one figure in MHz.
func fold(t tree, pattern string, by func([]float64) float64) *float64 {
	var mhz []float64
	for _, path := range t.glob(pattern) {
		if v := t.float(path, 1e-3); v != nil {
			mhz = append(mhz, *v)
		}
	}
	if len(mhz) == 0 {
		return nil
	}
	v := by(mhz)
	return &v
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
