package host

import (
	"fmt"
	"strings"

	"contend/internal/recording"
)

// Verdicts of a Finding.
const (
	OK      = "ok"
	Warn    = "warn"
	Unknown = "unknown" // the kernel does not show it
)

// Finding is one line of a host check.
type Finding struct {
	Name    string `json:"name"`
	Value   string `json:"value"` // as read, with its unit; empty when unknown
	Verdict string `json:"verdict"`
	Why     string `json:"why,omitempty"`    // what it does to a measurement
	Remedy  string `json:"remedy,omitempty"` // a command, where one helps
}

// warmCelsius is the package temperature above which a run starts too warm: the
// cool-down target of the reference's performance tests, which leaves the clock
// room before it throttles.
const warmCelsius = 55

// slowIdleUS is the exit latency, in µs, above which an idle state shows in
// hand-over latencies. C1 exits take 1 to 2 µs, C6 100 and more.
const slowIdleUS = 10

// Check judges whether a host is fit to measure on. The shares of steal and of
// other load need a state that Settle has completed; they read unknown otherwise.
func Check(s *recording.HostState) []Finding {
	if s == nil {
		return nil
	}
	findings := []Finding{
		machine(s), governor(s), turboBoost(s), frequency(s), clock(s), idle(s), smt(s),
		throttled(s), warm(s), steal(s), otherLoad(s), numa(s), hugePages(s), swap(s),
	}
	for i := range findings {
		f := &findings[i]
		if f.Value == "" {
			f.Verdict, f.Remedy = Unknown, ""
			f.Why = unknownWhy(f.Name, s)
		}
		if f.Verdict == OK {
			f.Why, f.Remedy = "", ""
		}
	}
	return findings
}

func unknownWhy(name string, s *recording.HostState) string {
	switch {
	case (name == "steal" || name == "other load") && s.Busy != nil:
		return "takes two readings, some time apart"
	case s.Virtual != nil && *s.Virtual:
		return "not shown to a virtual machine by its host"
	}
	return "not shown by this kernel"
}

// judge fills in a verdict; why and remedy are dropped again when all is well.
func judge(name, value string, ok bool, why, remedy string) Finding {
	f := Finding{Name: name, Value: value, Verdict: Warn, Why: why, Remedy: remedy}
	if ok {
		f.Verdict = OK
	}
	return f
}

func machine(s *recording.HostState) Finding {
	value := ""
	virtual := s.Virtual != nil && *s.Virtual
	if s.Virtual != nil {
		value = fmt.Sprintf("%s, %d CPUs", s.CPUModel, s.CPUs)
		if virtual {
			value += ", virtual"
		}
	}
	return judge("machine", value, !virtual,
		"neighbours share the processor, and what they do to its clock and caches cannot be seen",
		"measure on bare metal, or trust only interleaved pairs")
}

func governor(s *recording.HostState) Finding {
	return judge("governor", s.Governor, s.Governor == "performance",
		"the clock follows the load, so a faster program may run on a slower clock",
		"echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
}

func turboBoost(s *recording.HostState) Finding {
	remedy := "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
	if strings.HasPrefix(s.ScalingDriver, "intel_pstate") || strings.HasPrefix(s.ScalingDriver, "intel_cpufreq") {
		remedy = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
	}
	return judge("turbo", onOff(s.Turbo), s.Turbo != nil && !*s.Turbo,
		"the clock depends on temperature and on how many cores are busy", remedy)
}

func frequency(s *recording.HostState) Finding {
	if s.MinMHz == nil || s.MaxMHz == nil {
		return Finding{Name: "frequency"}
	}
	value := fmt.Sprintf("%.0f–%.0f MHz", *s.MinMHz, *s.MaxMHz)
	if s.CurrentMHz != nil {
		value += fmt.Sprintf(", now %.0f", *s.CurrentMHz)
	}
	return judge("frequency", value, s.Governor == "performance" || *s.MinMHz == *s.MaxMHz,
		"the clock may move within this range during a run",
		"cpupower frequency-set --min MHZ --max MHZ")
}

func clock(s *recording.HostState) Finding {
	switch {
	case s.EffectiveMHz != nil:
		return judge("clock", fmt.Sprintf("%.0f MHz, measured", *s.EffectiveMHz), true, "", "")
	case s.ClockIndex != nil:
		return judge("clock", fmt.Sprintf("index %.0f, measured", *s.ClockIndex), true, "", "")
	}
	return Finding{Name: "clock"}
}

func idle(s *recording.HostState) Finding {
	if s.IdleExitUS == nil {
		return Finding{Name: "idle states"}
	}
	return judge("idle states", fmt.Sprintf("down to %s, %.0f µs to leave", s.IdleState, *s.IdleExitUS),
		*s.IdleExitUS <= slowIdleUS,
		"waking a CPU adds this to a hand-over, and only where CPUs were idle",
		fmt.Sprintf("sudo cpupower idle-set --disable-by-latency %d", slowIdleUS))
}

func smt(s *recording.HostState) Finding {
	return judge("SMT", onOff(s.SMT), s.SMT != nil && !*s.SMT,
		"two threads share a core and slow each other down, depending on where they were put",
		"echo off | sudo tee /sys/devices/system/cpu/smt/control")
}

func throttled(s *recording.HostState) Finding {
	if s.Throttles == nil {
		return Finding{Name: "throttling"}
	}
	return judge("throttling", fmt.Sprintf("%d times since boot", *s.Throttles), *s.Throttles == 0,
		"the CPU has slowed itself down for heat; it will again",
		"let it cool down, turn turbo off")
}

func warm(s *recording.HostState) Finding {
	if s.Celsius == nil {
		return Finding{Name: "temperature"}
	}
	return judge("temperature", fmt.Sprintf("%.0f °C", *s.Celsius), *s.Celsius <= warmCelsius,
		fmt.Sprintf("above %d °C a run may begin cool and end throttled", warmCelsius),
		"let it cool down")
}

func steal(s *recording.HostState) Finding {
	return judge("steal", percent(s.StealShare), s.StealShare != nil && *s.StealShare <= MaxStealShare,
		"the hypervisor gives the CPUs to others; a preempted lock holder blocks everyone",
		"measure when the host is quiet")
}

func otherLoad(s *recording.HostState) Finding {
	return judge("other load", percent(s.BusyOther), s.BusyOther != nil && *s.BusyOther <= MaxBusyOther,
		"other processes take the CPUs and preempt lock holders",
		"stop them, or measure when they are done")
}

func numa(s *recording.HostState) Finding {
	return judge("NUMA balancing", onOff(s.NUMABalancing), s.NUMABalancing != nil && !*s.NUMABalancing,
		"the kernel moves pages during a run, at the cost of page faults",
		"sudo sysctl kernel.numa_balancing=0")
}

func hugePages(s *recording.HostState) Finding {
	return judge("huge pages", s.THP, s.THP == "madvise" || s.THP == "never",
		"compaction for transparent huge pages stalls allocations at random",
		"echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
}

func swap(s *recording.HostState) Finding {
	if s.Swap == nil || s.Swappiness == nil {
		return Finding{Name: "swap"}
	}
	value := "none"
	if *s.Swap {
		value = fmt.Sprintf("on, swappiness %d", *s.Swappiness)
	}
	return judge("swap", value, !*s.Swap || *s.Swappiness <= 1,
		"pages of the target may be written out between runs",
		"sudo sysctl vm.swappiness=1")
}

func onOff(b *bool) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return "on"
	}
	return "off"
}

func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.1f %%", *share*100)
}
