package target

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxProcFile bounds what is read of a small file of /proc; the largest, status,
// is under 4 KiB.
const maxProcFile = 64 << 10

// stat is what is used of /proc/PID/stat (proc_pid_stat(5)).
type stat struct {
	state      byte // field 3: Z and X are exited
	kernel     bool // field 9, bit PF_KTHREAD
	startTicks uint64
}

func parseStat(r io.Reader) (stat, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxProcFile))
	if err != nil {
		return stat{}, err
	}
	// Field 2 is the command in parentheses, which may hold both ')' and spaces.
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return stat{}, errors.New("stat: no command in parentheses")
	}
	fields := strings.Fields(string(data[end+1:])) // from field 3 on
	const first, flags, startTime, pfKthread = 3, 9, 22, 0x00200000
	if len(fields) <= startTime-first {
		return stat{}, fmt.Errorf("stat: %d fields after the command, fewer than %d", len(fields), startTime-first+1)
	}
	if len(fields[0]) != 1 {
		return stat{}, fmt.Errorf("stat: state %q is not one letter", fields[0])
	}
	flagBits, err := strconv.ParseUint(fields[flags-first], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("stat: flags: %w", err)
	}
	start, err := strconv.ParseUint(fields[startTime-first], 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("stat: start time: %w", err)
	}
	return stat{state: fields[0][0], kernel: flagBits&pfKthread != 0, startTicks: start}, nil
}

func (s stat) exited() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// status is what is used of /proc/PID/status (proc_pid_status(5)).
type status struct {
	tgid  int // of a thread, the process it belongs to
	nspid int // in the innermost PID namespace
	uid   int // the real user
}

func parseStatus(r io.Reader) (status, error) {
	found := make(map[string]int)
	lines := bufio.NewScanner(io.LimitReader(r, maxProcFile))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		field := fields[0]
		switch key {
		case "Tgid", "Uid":
		case "NSpid": // from the reader's namespace down to the process's own
			field = fields[len(fields)-1]
		default:
			continue
		}
		n, err := strconv.Atoi(field)
		if err != nil {
			return status{}, fmt.Errorf("status: %s: %w", key, err)
		}
		found[key] = n
	}
	if err := lines.Err(); err != nil {
		return status{}, fmt.Errorf("status: %w", err)
	}
	for _, key := range []string{"Tgid", "Uid", "NSpid"} {
		if _, ok := found[key]; !ok {
			return status{}, fmt.Errorf("status: no %s", key)
		}
	}
	return status{tgid: found["Tgid"], nspid: found["NSpid"], uid: found["Uid"]}, nil
}

// mapping is one line of /proc/PID/maps (proc_pid_maps(5)).
type mapping struct {
	start, end, offset uint64
	exec               bool
	inode              uint64
	path               string
}

// parseMaps calls yield with each mapping until it returns false.
func parseMaps(r io.Reader, yield func(mapping) bool) error {
	// A line holds a path of at most PATH_MAX bytes, each escaped to four at most.
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), 4*4096+256)
	for lines.Scan() {
		m, err := parseMapping(lines.Text())
		if err != nil {
			return err
		}
		if !yield(m) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("maps: %w", err)
	}
	return nil
}

func parseMapping(line string) (mapping, error) {
	var fields [5]string
	rest := line
	for i := range fields {
		fields[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	start, end, _ := strings.Cut(fields[0], "-")
	m := mapping{
		exec: strings.Contains(fields[1], "x"),
		// The kernel escapes only line feeds in the path (show_map_vma).
		path: strings.ReplaceAll(strings.TrimLeft(rest, " "), `\012`, "\n"),
	}
	var errs [4]error
	m.start, errs[0] = strconv.ParseUint(start, 16, 64)
	m.end, errs[1] = strconv.ParseUint(end, 16, 64)
	m.offset, errs[2] = strconv.ParseUint(fields[2], 16, 64)
	m.inode, errs[3] = strconv.ParseUint(fields[4], 10, 64)
	if err := errors.Join(errs[:]...); err != nil || m.end < m.start {
		return mapping{}, fmt.Errorf("maps: line %.80q is not understood", line)
	}
	return m, nil
}
