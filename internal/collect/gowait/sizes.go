package gowait

import (
	"golang.org/x/sys/unix"
)

// sized fills in the sizes that are 0: about 12 MB of maps on a machine with less
// than 4 GiB of memory, twice as much from there on, four times from 16 GiB on. The
// recorder needs as much again when it reads them.
func (o Options) sized(memory uint64) Options {
	scale := uint32(1)
	if memory >= 4<<30 {
		scale = 2
	}
	if memory >= 16<<30 {
		scale = 4
	}
	stacks := 8192 * scale
	if o.Mode != ModeLocks && o.Mode != "" {
		stacks += 8192
	}
	for _, size := range []struct {
		n     *uint32
		usual uint32
	}{
		{&o.Goroutines, 32768},
		{&o.Locks, 8192 * scale},
		{&o.Waits, 6144 * scale},
		{&o.Stacks, stacks},
		{&o.Pairs, 4096 * scale},
		{&o.Held, 8192},
	} {
		if *size.n == 0 {
			*size.n = size.usual
		}
	}
	return o
}

// memoryOfMachine is the machine's, in bytes; 0 if not known.
func memoryOfMachine() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
