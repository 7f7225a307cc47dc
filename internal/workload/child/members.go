package child

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Members are the processes of the group, its leader first, then by number.
func (c *Command) Members() []int {
	pids := []int{c.PID()}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == c.PID() {
			continue
		}
		if b, err := os.ReadFile(path); err == nil && groupOf(b) == c.PID() { // else it has just exited
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids[1:])
	return pids
}

// groupOf reads the process group off /proc/PID/stat (proc_pid_stat(5)), 0 when
// it has none. The command, in parentheses, may itself hold any character;
// field 3 follows it, and field 5 is the group.
func groupOf(stat []byte) int {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 3 {
		return 0
	}
	group, err := strconv.Atoi(fields[2])
	if err != nil {
		return 0
	}
	return group
}
