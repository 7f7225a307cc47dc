package target

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxComm is the length to which the kernel cuts a process's name (TASK_COMM_LEN).
const maxComm = 15

// Named finds the processes of that name, as ps and pgrep have it: by what the kernel
// calls them, or where that is cut by their executable. This process is none of them.
func Named(name string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		comm, err := os.ReadFile(procPath(pid, "comm"))
		if err != nil {
			continue // it has exited
		}
		if matchesName(name, strings.TrimSuffix(string(comm), "\n"), pid) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

func matchesName(name, comm string, pid int) bool {
	if len(name) <= maxComm {
		return name == comm
	}
	if name[:maxComm] != comm {
		return false
	}
	exe, err := os.Readlink(procPath(pid, "exe"))
	return err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == name
}
