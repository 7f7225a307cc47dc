// Package bpfmap reads and empties BPF maps some thousand entries a system call: one by
// one, the recorder would use more time than the target lets it have.
package bpfmap

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Each calls f for every entry of a map that does not change meanwhile.
func Each[K, V any](m *ebpf.Map, f func(K, V)) error {
	return batches(m, m.BatchLookup, f)
}

// Drain calls f for every entry of a hash map, and empties it.
func Drain[K, V any](m *ebpf.Map, f func(K, V)) error {
	return batches(m, m.BatchLookupAndDelete, f)
}

// Clear empties a hash map.
func Clear[K, V any](m *ebpf.Map) error {
	return Drain(m, func(K, V) {})
}

// Zero sets the elements of an array that are not zero to zero.
func Zero[V comparable](m *ebpf.Map) error {
	var zero V
	var used []uint32
	err := Each(m, func(i uint32, v V) {
		if v != zero {
			used = append(used, i)
		}
	})
	for _, i := range used {
		err = errors.Join(err, m.Put(i, &zero))
	}
	if err != nil {
		return fmt.Errorf("clearing map %s: %w", m, err)
	}
	return nil
}

func batches[K, V any](m *ebpf.Map, next func(*ebpf.MapBatchCursor, any, any, *ebpf.BatchOptions) (int, error), f func(K, V)) error {
	size := min(m.MaxEntries(), 4096)
	keys, values := make([]K, size), make([]V, size)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := next(&cursor, keys, values, nil)
		for i := range n {
			f(keys[i], values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading map %s: %w", m, err)
		}
	}
}
