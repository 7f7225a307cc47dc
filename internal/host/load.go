package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v3/cpu"

	"contend/internal/recording"
)

func readMemory(t tree, s *recording.HostState) {
	s.NUMABalancing = t.flag("proc/sys/kernel/numa_balancing")
	s.THP = selected(t.text("sys/kernel/mm/transparent_hugepage/enabled"))
	if n := t.integer("proc/sys/vm/swappiness"); n != nil {
		v := int(*n)
		s.Swappiness = &v
	}
	if areas := t.text("proc/swaps"); areas != "" {
		used := strings.Contains(areas, "\n") // the first line is the heading
		s.Swap = &used
	}
}

func readLoad(t tree, s *recording.HostState) {
	s.Load1 = firstField(t.text("proc/loadavg"))
	s.Uptime = firstField(t.text("proc/uptime"))
	times, err := cpu.TimesWithContext(t.gopsutil(), false)
	if err != nil || len(times) == 0 {
		return
	}
	c := times[0]
	// Guest time is part of user and nice already (proc_stat(5)).
	busy := c.User + c.Nice + c.System + c.Irq + c.Softirq
	s.Busy, s.Steal = &busy, &c.Steal
}

func firstField(line string) *float64 {
	word, _, _ := strings.Cut(line, " ")
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return nil
	}
	return &v
}

// ticksPerSecond is USER_HZ, the unit of times in procfs: 100 on every
// architecture Linux runs on but alpha and ia64.
const ticksPerSecond = 100

// treeSeconds sums the CPU time of processes and their descendants, those
// already waited for included, each once. It reports false when one of them is
// unknown.
func treeSeconds(t tree, roots []int) (float64, bool) {
	processes := map[int]procStat{}
	children := map[int][]int{}
	for _, path := range t.glob("proc/[0-9]*/stat") {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		p, err := parseStat(t.text(path))
		if err != nil {
			continue // it exited while we looked; its parent has its time
		}
		processes[pid] = p
		children[p.parent] = append(children[p.parent], pid)
	}
	for _, pid := range roots {
		if _, ok := processes[pid]; !ok {
			return 0, false
		}
	}
	ticks := uint64(0)
	seen := map[int]bool{}
	for todo := slices.Clone(roots); len(todo) > 0; todo = todo[1:] {
		pid := todo[0]
		if seen[pid] {
			continue // below two roots, or listed while it was being reparented
		}
		seen[pid] = true
		ticks += processes[pid].ticks
		todo = append(todo, children[pid]...)
	}
	return float64(ticks) / ticksPerSecond, len(roots) > 0
}

// procStat is what is needed of /proc/PID/stat.
type procStat struct {
	parent int
	ticks  uint64 // own and waited-for children's user and system time
}

// parseStat parses /proc/PID/stat (proc_pid_stat(5)): the command, in
// parentheses, may itself hold spaces and parentheses; field 4 is the parent,
// 14 to 17 are utime, stime, cutime and cstime.
func parseStat(line string) (procStat, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return procStat{}, fmt.Errorf("process stat without a command: %.40q", line)
	}
	fields := strings.Fields(line[end+1:]) // fields[0] is field 3
	if len(fields) < 15 {
		return procStat{}, fmt.Errorf("process stat with %d fields after the command, want 15 or more", len(fields))
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return procStat{}, fmt.Errorf("process stat: parent: %w", err)
	}
	p := procStat{parent: parent}
	for _, f := range fields[11:15] {
		n, err := strconv.ParseInt(f, 10, 64) // cutime and cstime are signed
		if err != nil {
			return procStat{}, fmt.Errorf("process stat: time: %w", err)
		}
		p.ticks += uint64(max(n, 0))
	}
	return p, nil
}
