package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// snapshot reads every file of a tree.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path) // path is below root
		files[rel] = strings.TrimSpace(string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// settable is the laptop with the attributes that only tuning touches.
var settable = merge(laptop, map[string]string{
	sysCPU + "cpu0/cpuidle/state2/disable":                   "0",
	sysCPU + "intel_pstate/min_perf_pct":                     "16",
	"proc/sys/kernel/nmi_watchdog":                           "1",
	"sys/kernel/mm/transparent_hugepage/defrag":              "always defer defer+madvise [madvise] never",
	"sys/block/nvme0n1/queue/scheduler":                      "[mq-deadline] kyber none",
	"sys/block/sr0/queue/scheduler":                          "[bfq]",
	"sys/firmware/acpi/platform_profile":                     "balanced",
	"sys/firmware/acpi/platform_profile_choices":             "low-power balanced",
	"sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us": "100000",
})

// plain is a snapshot as Restore leaves it in files, where a choice is one word
// and not the list that the kernel shows.
func plain(files map[string]string) map[string]string {
	out := map[string]string{}
	for path, text := range files {
		if word := selected(text); word != "" {
			text = word
		}
		out[path] = text
	}
	return out
}

func failures(changes []Change) []string {
	var out []string
	for _, c := range changes {
		if c.Err != "" {
			out = append(out, c.Path+": "+c.Err)
		}
	}
	return out
}

func TestTuneAndRestore(t *testing.T) {
	root := fake(t, settable)
	file := filepath.Join(t.TempDir(), "var", "tuned.json")
	before := snapshot(t, root)
	changes, err := Tune(root, file)
	if err != nil || len(failures(changes)) > 0 {
		t.Fatalf("%v, %v", failures(changes), err)
	}
	after := snapshot(t, root)
	changed := map[string]string{}
	for path, text := range after {
		if text != before[path] {
			changed[path] = text
		}
	}
	want := map[string]string{
		sysCPU + "cpu0/cpufreq/scaling_governor":                 "performance",
		sysCPU + "cpu1/cpufreq/scaling_governor":                 "performance",
		sysCPU + "cpu3/cpufreq/scaling_governor":                 "performance",
		sysCPU + "intel_pstate/no_turbo":                         "1",
		sysCPU + "intel_pstate/min_perf_pct":                     "100",
		sysCPU + "cpu0/cpuidle/state2/disable":                   "1",
		"proc/sys/vm/swappiness":                                 "1",
		"proc/sys/kernel/nmi_watchdog":                           "0",
		"sys/kernel/mm/transparent_hugepage/enabled":             "madvise",
		"sys/block/nvme0n1/queue/scheduler":                      "none",
		"sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us": "0",
	}
	if d := cmp.Diff(want, changed); d != "" {
		t.Error(d)
	}
	if len(changes) != len(want) {
		t.Errorf("%d changes reported, %d made", len(changes), len(want))
	}

	// Once more finds nothing to do, and does not forget what there was.
	if again, err := Tune(root, file); err != nil || len(again) != 0 {
		t.Errorf("again: %v, %v", again, err)
	}
	if back, err := Restore(root, file); err != nil || len(back) != len(want) || len(failures(back)) > 0 {
		t.Errorf("restored %v, %v", back, err)
	}
	if d := cmp.Diff(plain(before), plain(snapshot(t, root))); d != "" {
		t.Error(d)
	}
	if _, err := Restore(root, file); !errors.Is(err, ErrNotTuned) {
		t.Errorf("restored twice: %v", err)
	}
}

// A crash may come between any two writes: what was done is put back, and what
// was not is left.
func TestRestoreAfterACrash(t *testing.T) {
	root := fake(t, settable)
	file := filepath.Join(t.TempDir(), "tuned.json")
	before := snapshot(t, root)
	if _, err := Tune(root, file); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{ // never reached
		"proc/sys/vm/swappiness":                     "60",
		"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
	} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Tuned again after the crash, the first findings are still what counts.
	if _, err := Tune(root, file); err != nil {
		t.Fatal(err)
	}
	if back, err := Restore(root, file); err != nil || len(failures(back)) > 0 {
		t.Fatalf("%v, %v", failures(back), err)
	}
	if d := cmp.Diff(plain(before), plain(snapshot(t, root))); d != "" {
		t.Error(d)
	}
}

func TestRestoreLeavesWhatOthersChanged(t *testing.T) {
	root := fake(t, settable)
	file := filepath.Join(t.TempDir(), "tuned.json")
	if _, err := Tune(root, file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "proc/sys/vm/swappiness")
	if err := os.WriteFile(path, []byte("10\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	back, err := Restore(root, file)
	if err != nil {
		t.Fatal(err)
	}
	if f := failures(back); len(f) != 1 || f[0] != `proc/sys/vm/swappiness: left at "10", which somebody else has set` {
		t.Errorf("%q", f)
	}
	if b, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(b)) != "10" {
		t.Errorf("swappiness is %q, %v", b, err)
	}
}

// What cannot be put back stays known for the next call.
func TestRestoreKeepsWhatItCouldNot(t *testing.T) {
	root := fake(t, settable)
	file := filepath.Join(t.TempDir(), "tuned.json")
	if _, err := Tune(root, file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, sysCPU+"intel_pstate/no_turbo")
	aside := path + ".aside"
	// A link to itself reads as nothing and cannot be opened, for root neither.
	if err := errors.Join(os.Rename(path, aside), os.Symlink("no_turbo", path)); err != nil {
		t.Fatal(err)
	}
	back, err := Restore(root, file)
	if err != nil || len(failures(back)) != 1 {
		t.Fatalf("%v, %v", failures(back), err)
	}
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
	if back, err = Restore(root, file); err != nil || len(back) != 1 || len(failures(back)) > 0 {
		t.Errorf("second call: %v, %v", back, err)
	}
	if b, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(b)) != "0" {
		t.Errorf("no_turbo is %q, %v", b, err)
	}
}

// A restart undoes every change: what an earlier boot's file says is no longer so.
func TestRestoreAfterARestart(t *testing.T) {
	root := fake(t, settable)
	file := filepath.Join(t.TempDir(), "tuned.json")
	if _, err := Tune(root, file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/sys/kernel/random/boot_id"), []byte("b2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(root, file); !errors.Is(err, ErrNotTuned) {
		t.Errorf("error %v", err)
	}
}

// Nothing is changed before what was found is safe.
func TestTuneNeedsItsFile(t *testing.T) {
	root := fake(t, settable)
	before := snapshot(t, root)
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Tune(root, filepath.Join(blocked, "tuned.json")); err == nil {
		t.Error("tuned without keeping what was found")
	}
	if d := cmp.Diff(before, snapshot(t, root)); d != "" {
		t.Error(d)
	}
}

func TestTuneNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tuned.json")
	if changes, err := Tune(t.TempDir(), file); err != nil || len(changes) != 0 {
		t.Errorf("%v, %v", changes, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file was kept of no change")
	}
}

func FuzzParseTuned(f *testing.F) {
	f.Add(`{"schema":1,"boot_id":"b","changes":[{"path":"proc/sys/vm/swappiness","was":"60","set":"1"}]}`)
	f.Add(`{"schema":1,"changes":[{"path":"../etc/passwd"}]}`)
	f.Add(`{"schema":1,"changes":[{"path":"sys/../etc/passwd"}]}`)
	f.Add(`{"schema":1,"changes":[{"path":"/sys/x"}]}`)
	f.Add(`{"schema":2}`)
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseTuned(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, c := range k.Changes {
			if parts := strings.Split(c.Path, "/"); parts[0] != "sys" && (parts[0] != "proc" || parts[1] != "sys") || slices.Contains(parts, "..") {
				t.Errorf("%q leads elsewhere", c.Path)
			}
		}
	})
}
