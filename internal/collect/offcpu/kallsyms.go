package offcpu

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
)

// errRestricted reports a table of kernel symbols whose addresses all read 0.
var errRestricted = errors.New("kernel symbols are hidden: run with CAP_SYSLOG, or set kernel.kptr_restrict=0")

func kernelNames(path string, addrs []uint64) (map[uint64]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return resolve(f, addrs)
}

// resolve names the functions that kernel addresses lie in, from a table in the
// format of /proc/kallsyms: lines "address type name [module]", in no order. It
// keeps in memory only what was asked for. An address below the first function
// has no name.
func resolve(r io.Reader, addrs []uint64) (map[uint64]string, error) {
	addrs = slices.Clone(addrs)
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	best := make([]symbol, len(addrs)) // the nearest function at or below each address and above the one before
	seen, hidden := 0, 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		s, ok := parseSymbol(lines.Bytes())
		if !ok {
			continue
		}
		seen++
		if s.addr == 0 {
			hidden++
			continue
		}
		i, _ := slices.BinarySearch(addrs, s.addr)
		if i < len(addrs) && s.addr > best[i].addr {
			best[i].addr = s.addr
			best[i].name = append(best[i].name[:0], s.name...) // most lines are nearer than the one before
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("kernel symbols: %w", err)
	}
	if seen == hidden {
		return nil, errRestricted
	}
	names := make(map[uint64]string, len(addrs))
	var last symbol
	for i, addr := range addrs {
		if best[i].addr != 0 {
			last = best[i]
		}
		if last.addr != 0 {
			names[addr] = string(last.name)
		}
	}
	return names, nil
}

type symbol struct {
	addr uint64
	name []byte // valid until the next line
}

// parseSymbol accepts the lines of functions: types t, T, w and W.
func parseSymbol(line []byte) (symbol, bool) {
	hex, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(rest) < 3 || rest[1] != ' ' || !bytes.ContainsRune([]byte("tTwW"), rune(rest[0])) {
		return symbol{}, false
	}
	addr, err := strconv.ParseUint(string(hex), 16, 64)
	name, _, _ := bytes.Cut(rest[2:], []byte("\t"))
	return symbol{addr, name}, err == nil && len(name) > 0
}
