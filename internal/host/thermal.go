package host

import (
	"slices"
	"strings"
)

// throttles sums the thermal throttle counts of every core and every package,
// each counted once: sibling threads and the CPUs of a package repeat the count
// of what they share, so of each the largest reading stands for all.
func throttles(t tree) *int64 {
	counts := map[string]int64{}
	note := func(key, path string) {
		if n := t.integer(path); n != nil {
			counts[key] = max(counts[key], *n)
		}
	}
	for _, dir := range t.glob(cpuDir + "cpu[0-9]*/thermal_throttle") {
		topology := strings.TrimSuffix(dir, "thermal_throttle") + "topology/"
		pkg := t.text(topology + "physical_package_id")
		core := t.text(topology + "core_id")
		if core == "" {
			core = dir // topology unknown: the CPU stands for itself
		}
		note("core "+pkg+"/"+core, dir+"/core_throttle_count")
		note("package "+pkg, dir+"/package_throttle_count")
	}
	if len(counts) == 0 {
		return nil
	}
	sum := int64(0)
	for _, n := range counts {
		sum += n
	}
	return &sum
}

// temperature is that of the hottest CPU package in °C: Intel's coretemp, AMD's
// k10temp or zenpower, else the x86_pkg_temp thermal zone.
func temperature(t tree) *float64 {
	var hottest *float64
	note := func(path string) {
		if c := t.float(path, 1e-3); c != nil && (hottest == nil || *c > *hottest) {
			hottest = c
		}
	}
	for _, name := range t.glob("sys/class/hwmon/hwmon*/name") {
		driver := t.text(name)
		if !slices.Contains([]string{"coretemp", "k10temp", "zenpower"}, driver) {
			continue
		}
		for _, label := range t.glob(strings.TrimSuffix(name, "name") + "temp[0-9]*_label") {
			if packageSensor(driver, t.text(label)) {
				note(strings.TrimSuffix(label, "_label") + "_input")
			}
		}
	}
	if hottest != nil {
		return hottest
	}
	for _, zone := range t.glob("sys/class/thermal/thermal_zone*/type") {
		if t.text(zone) == "x86_pkg_temp" {
			note(strings.TrimSuffix(zone, "type") + "temp")
		}
	}
	return hottest
}

func packageSensor(driver, label string) bool {
	if driver == "coretemp" {
		return strings.HasPrefix(label, "Package")
	}
	// Tctl is what the fan control sees and may carry an offset; where Tdie
	// exists both are read and the hotter one is kept, the cautious choice.
	return label == "Tctl" || label == "Tdie"
}
