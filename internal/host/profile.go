package host

import (
	"slices"
	"strings"
)

// setting is a kernel attribute and the value it has on a host to measure on.
type setting struct {
	path string // relative to the tree
	want string
}

// wanted are the settings of the performance-testing profile that this host has.
// It is TuneD's latency-performance with turbo off, in the kernel's own files:
// https://github.com/redhat-performance/tuned/tree/master/profiles
func wanted(t tree) []setting {
	var all []setting
	add := func(pattern, want string, only ...func(path string) bool) {
		for _, path := range t.glob(pattern) {
			if len(only) == 0 || only[0](path) {
				all = append(all, setting{path, want})
			}
		}
	}
	offers := func(word string) func(string) bool {
		return func(path string) bool {
			return slices.Contains(strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(t.text(path))), word)
		}
	}
	add(cpuDir+"cpu[0-9]*/cpufreq/scaling_governor", "performance")
	add(cpuDir+"intel_pstate/no_turbo", "1")
	add(cpuDir+"cpufreq/boost", "0")
	add(cpuDir+"cpufreq/policy[0-9]*/boost", "0")
	add(cpuDir+"intel_pstate/min_perf_pct", "100")
	// Deeper than C1: see slowIdleUS.
	add(cpuDir+"cpu[0-9]*/cpuidle/state[0-9]*/disable", "1", func(path string) bool {
		exit := t.float(strings.TrimSuffix(path, "disable")+"latency", 1)
		return exit != nil && *exit > slowIdleUS
	})
	add("sys/firmware/acpi/platform_profile", "performance", func(string) bool {
		return slices.Contains(strings.Fields(t.text("sys/firmware/acpi/platform_profile_choices")), "performance")
	})
	add("proc/sys/vm/swappiness", "1")
	add("proc/sys/kernel/numa_balancing", "0")
	add("proc/sys/kernel/nmi_watchdog", "0")
	add("sys/kernel/mm/transparent_hugepage/enabled", "madvise", offers("madvise"))
	add("sys/kernel/mm/transparent_hugepage/shmem_enabled", "advise", offers("advise"))
	add("sys/kernel/mm/transparent_hugepage/defrag", "madvise", offers("madvise"))
	add("sys/block/*/queue/scheduler", "none", offers("none"))
	add("sys/class/nvme/nvme*/power/pm_qos_latency_tolerance_us", "0")
	return all
}

// setting reads an attribute's value, of a choice the chosen word. It is not
// known where the file cannot be read.
func (t tree) setting(path string) (value string, ok bool) {
	text := t.text(path)
	if word := selected(text); word != "" {
		return word, true
	}
	return text, text != ""
}
