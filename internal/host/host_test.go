package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"contend/internal/recording"
)

// fake writes a tree of files; a path is its key, its contents the value.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func merge(sets ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, set := range sets {
		for k, v := range set {
			all[k] = v
		}
	}
	return all
}

const sysCPU = "sys/devices/system/cpu/"

// laptop is a machine of one package, two cores and four threads.
var laptop = merge(map[string]string{
	"proc/sys/kernel/hostname":                   "bench",
	"proc/sys/kernel/osrelease":                  "6.12.0",
	"proc/sys/kernel/random/boot_id":             "b1",
	"proc/sys/kernel/numa_balancing":             "0",
	"proc/sys/vm/swappiness":                     "60",
	"proc/swaps":                                 "Filename Type Size Used Priority\n/dev/dm-1 partition 8388604 0 -2",
	"proc/loadavg":                               "0.50 0.40 0.30 1/200 999",
	"proc/uptime":                                "1000.50 3000.00",
	"proc/stat":                                  "cpu  1000 200 300 9000 10 20 30 40 50 60\ncpu0 1 2 3 4 5 6 7 8 9 10",
	"proc/cpuinfo":                               "processor\t: 0\nmodel name\t: Core i9\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel name\t: Core i9\nflags\t\t: fpu vme\n\nprocessor\t: 2\nmodel name\t: Core i9\nflags\t\t: fpu\n\nprocessor\t: 3\nmodel name\t: Core i9\nflags\t\t: fpu",
	"proc/100/stat":                              "100 (contend) S 1 100 100 0 -1 4194560 1 2 3 4 100 50 30 20 20 0 9 0 5 1 1",
	"proc/101/stat":                              "101 (a) b (c) S 100 100 100 0 -1 4194560 1 2 3 4 200 0 0 0 20 0 9 0 5 1 1",
	"proc/102/stat":                              "102 (deep) S 101 100 100 0 -1 4194560 1 2 3 4 0 100 0 0 20 0 9 0 5 1 1",
	"proc/103/stat":                              "103 (other) S 1 103 103 0 -1 4194560 1 2 3 4 900 900 0 0 20 0 9 0 5 1 1",
	"proc/104/stat":                              "104 truncated",
	sysCPU + "smt/active":                        "1",
	sysCPU + "intel_pstate/no_turbo":             "0",
	sysCPU + "cpu0/cpuidle/state0/name":          "POLL",
	sysCPU + "cpu0/cpuidle/state0/latency":       "0",
	sysCPU + "cpu0/cpuidle/state1/name":          "C1",
	sysCPU + "cpu0/cpuidle/state1/latency":       "2",
	sysCPU + "cpu0/cpuidle/state1/disable":       "0",
	sysCPU + "cpu0/cpuidle/state2/name":          "C6",
	sysCPU + "cpu0/cpuidle/state2/latency":       "133",
	sysCPU + "cpu0/cpuidle/state2/disable":       "1",
	"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
	"sys/class/hwmon/hwmon0/name":                "acpitz",
	"sys/class/hwmon/hwmon0/temp1_label":         "Package trap",
	"sys/class/hwmon/hwmon0/temp1_input":         "99000",
	"sys/class/hwmon/hwmon1/name":                "coretemp",
	"sys/class/hwmon/hwmon1/temp1_label":         "Package id 0",
	"sys/class/hwmon/hwmon1/temp1_input":         "61000",
	"sys/class/hwmon/hwmon1/temp2_label":         "Core 0",
	"sys/class/hwmon/hwmon1/temp2_input":         "70000",
},
	laptopCPU("0", "0", "powersave", "800000", "4800000", "2000000", "5", "2"),
	laptopCPU("1", "1", "powersave", "800000", "4800000", "3000000", "3", "2"),
	laptopCPU("2", "0", "performance", "800000", "5000000", "4000000", "5", "2"),
	laptopCPU("3", "1", "powersave", "400000", "4800000", "3000000", "3", "1"),
)

func laptopCPU(n, core, governor, low, high, now, coreThrottles, packageThrottles string) map[string]string {
	dir := sysCPU + "cpu" + n + "/"
	return map[string]string{
		dir + "cpufreq/scaling_governor":                governor,
		dir + "cpufreq/scaling_driver":                  "intel_pstate",
		dir + "cpufreq/scaling_min_freq":                low,
		dir + "cpufreq/scaling_max_freq":                high,
		dir + "cpufreq/scaling_cur_freq":                now,
		dir + "topology/core_id":                        core,
		dir + "topology/physical_package_id":            "0",
		dir + "thermal_throttle/core_throttle_count":    coreThrottles,
		dir + "thermal_throttle/package_throttle_count": packageThrottles,
	}
}

func ref[T any](v T) *T { return &v }

func TestReadLaptop(t *testing.T) {
	got := Read(fake(t, laptop), 100)
	want := &recording.HostState{
		Hostname: "bench", Kernel: "6.12.0", BootID: "b1",
		CPUModel: "Core i9", CPUs: 4, Virtual: ref(false), SMT: ref(true),
		Governor: "performance, powersave", ScalingDriver: "intel_pstate", Turbo: ref(true),
		MinMHz: ref(400.0), MaxMHz: ref(5000.0), CurrentMHz: ref(3000.0),
		IdleState: "C1", IdleExitUS: ref(2.0), // C6 is disabled
		Throttles: ref(int64(5 + 3 + 2)), // two cores and one package, siblings not twice
		Celsius:   ref(61.0),
		Steal:     ref(0.40), Busy: ref(15.50), // ticks of 10 ms; guest time is in user
		BusyOwn: ref(5.0), // 100 with its reaped children, 101, 102
		Load1:   ref(0.5), Uptime: ref(1000.5),
		NUMABalancing: ref(false), THP: "always", Swappiness: ref(60), Swap: ref(true),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestOwnLoadOfSeveralTrees(t *testing.T) {
	root := fake(t, laptop)
	for name, c := range map[string]struct {
		pids []int
		want *float64
	}{
		"two trees":         {[]int{100, 103}, ref(23.0)},
		"one in the other":  {[]int{101, 100}, ref(5.0)},
		"one of them gone":  {[]int{100, 999}, nil},
		"one is unreadable": {[]int{100, 104}, nil},
		"none":              {nil, nil},
	} {
		if d := cmp.Diff(c.want, Read(root, c.pids...).BusyOwn); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestBeside(t *testing.T) {
	edge := Beside(os.Getppid())
	before, none := edge(nil)
	if before.BusyOwn == nil || none != nil {
		t.Fatalf("first edge: own %v, disturbed %q", before.BusyOwn, none)
	}
	for {
		after, _ := edge(before)
		if *after.Uptime > *before.Uptime { // kept to 10 ms
			if after.BusyOther == nil || after.StealShare == nil {
				t.Errorf("second edge: other load %v, steal %v", after.BusyOther, after.StealShare)
			}
			return
		}
	}
}

func TestReadNothing(t *testing.T) {
	got := Read(t.TempDir(), 1)
	if d := cmp.Diff(&recording.HostState{}, got); d != "" {
		t.Errorf("an empty tree must read as unknown throughout:\n%s", d)
	}
	for _, f := range Check(got) {
		if f.Verdict != Unknown || f.Value != "" || f.Remedy != "" {
			t.Errorf("%s: %+v, want unknown", f.Name, f)
		}
	}
}

func TestReadGarbage(t *testing.T) {
	files := map[string]string{}
	for path := range laptop {
		files[path] = "[\x00)garbage"
	}
	got := Read(fake(t, files), 100)
	for name, missing := range map[string]bool{
		"turbo": got.Turbo == nil, "MHz": got.MinMHz == nil, "throttles": got.Throttles == nil, "temperature": got.Celsius == nil,
		"steal": got.Steal == nil, "own": got.BusyOwn == nil, "load": got.Load1 == nil, "SMT": got.SMT == nil,
		"huge pages": got.THP == "", "idle": got.IdleExitUS == nil,
	} {
		if !missing {
			t.Errorf("%s was read from garbage", name)
		}
	}
}

func TestTurboSources(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  *bool
	}{
		"intel off":         {map[string]string{sysCPU + "intel_pstate/no_turbo": "1"}, ref(false)},
		"boost on":          {map[string]string{sysCPU + "cpufreq/boost": "1"}, ref(true)},
		"boost off":         {map[string]string{sysCPU + "cpufreq/boost": "0"}, ref(false)},
		"one policy boosts": {map[string]string{sysCPU + "cpufreq/policy0/boost": "0", sysCPU + "cpufreq/policy1/boost": "1"}, ref(true)},
		"no policy boosts":  {map[string]string{sysCPU + "cpufreq/policy0/boost": "0"}, ref(false)},
		"unknown":           {nil, nil},
	} {
		if d := cmp.Diff(c.want, Read(fake(t, c.files), 1).Turbo); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestTemperatureSources(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  *float64
	}{
		"AMD": {map[string]string{
			"sys/class/hwmon/hwmon3/name": "k10temp", "sys/class/hwmon/hwmon3/temp1_label": "Tctl",
			"sys/class/hwmon/hwmon3/temp1_input": "45500", "sys/class/hwmon/hwmon3/temp3_label": "Tccd1",
			"sys/class/hwmon/hwmon3/temp3_input": "60000"}, ref(45.5)},
		"zone":       {map[string]string{"sys/class/thermal/thermal_zone1/type": "x86_pkg_temp", "sys/class/thermal/thermal_zone1/temp": "50000"}, ref(50.0)},
		"other zone": {map[string]string{"sys/class/thermal/thermal_zone0/type": "acpitz", "sys/class/thermal/thermal_zone0/temp": "50000"}, nil},
	} {
		if d := cmp.Diff(c.want, Read(fake(t, c.files), 1).Celsius); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestNow(t *testing.T) {
	before := Now()
	if before.CPUs < 1 || before.Kernel == "" || before.BootID == "" || before.ClockIndex == nil {
		t.Errorf("this host reads as %+v", before)
	}
	if before.Busy == nil || before.BusyOwn == nil || before.Uptime == nil {
		t.Error("CPU times of this host are missing")
	}
	if *before.BusyOwn > *before.Busy {
		t.Errorf("own %v s of %v s busy", *before.BusyOwn, *before.Busy)
	}
	for _, f := range Check(before) {
		t.Logf("%-14s %-36s %-8s %s", f.Name, f.Value, f.Verdict, f.Why)
	}
}

func FuzzParseStat(f *testing.F) {
	for path, text := range laptop {
		if strings.HasSuffix(path, "/stat") {
			f.Add(text)
		}
	}
	f.Add("1 () S 0 0 0 0 0 0 0 0 0 0 18446744073709551615 -1 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		p, err := parseStat(line)
		if err != nil && p != (procStat{}) {
			t.Errorf("parseStat(%q) = %+v besides the error %v", line, p, err)
		}
	})
}
