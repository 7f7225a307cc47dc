package gowait

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"contend/bpf"
	"contend/internal/collect/pace"
	"contend/internal/recording"
)

func TestBudget(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	at := func(elapsed, cost int) pace.Spent {
		return pace.Spent{Elapsed: ms(elapsed), Cost: ms(cost), Base: ms(elapsed)}
	}
	for _, test := range []struct {
		name   string
		length int
		s      pace.Spent
		over   bool
	}{
		{"cheap", 10_000, at(5000, 90), false},
		{"too early to tell", 0, at(50, 25), false},
		{"dear, the length is not known", 0, at(100, 3), true},
		{"dear, within a quarter of the whole", 10_000, at(200, 49), false},
		{"dear, past a quarter", 10_000, at(200, 51), true},
		{"a little too dear for a second", 10_000, at(1000, 21), true},
	} {
		if got := (budget{0.02, ms(test.length)}).over(test.s); got != test.over {
			t.Errorf("%s: over is %v", test.name, got)
		}
	}
	b, first := budget{0.02, ms(10_000)}, at(200, 51)
	if again := b.again(first); again != ms(9800) {
		t.Errorf("again at %s, want the same length at the end", again)
	}
	if !b.affords(at(9800, 149), first) || b.affords(at(9800, 150), first) {
		t.Error("200 ms may be spent in 10 s at 2 %")
	}
	if again := (budget{0.02, ms(500)}).again(first); again != 0 {
		t.Errorf("again at %s of 500 ms after 200 ms", again)
	}
	if again := (budget{bound: 0.02}).again(first); again != 0 {
		t.Errorf("again at %s of an unknown length", again)
	}
}

// image is memory that begins at an address.
type image struct {
	at   uint64
	data []byte
}

func (m image) read(addr uint64, buf []byte) error {
	size := uint64(len(m.data)) // sums of addresses could overflow
	if addr < m.at || addr-m.at > size || uint64(len(buf)) > size-(addr-m.at) {
		return errors.New("not mapped")
	}
	copy(buf, m.data[addr-m.at:])
	return nil
}

// reasonTable lays out strings and an array of headers for them, behind junk.
func reasonTable(strings ...string) ([]byte, image) {
	text := image{at: 0x500000}
	junk := make([]byte, 40)
	junk[24] = byte(len(reasonMark)) // what looks like the table's beginning
	table := junk
	for _, s := range strings {
		var ptr uint64
		if s != "" {
			ptr = text.at + uint64(len(text.data))
			text.data = append(text.data, s...)
		}
		table = binary.LittleEndian.AppendUint64(table, ptr)
		table = binary.LittleEndian.AppendUint64(table, uint64(len(s)))
	}
	return append(table, make([]byte, 32)...), text
}

func TestScanReasons(t *testing.T) {
	want := reasons{"", "GC assist marking", "IO wait", "sync.Mutex.Lock", "coroutine", "GC worker (idle)", "something new"}
	table, text := reasonTable(want...)
	got := scanReasons(table, text.read)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	kinds := got.probeKinds()
	other, run := uint8(bpf.GoparksReasonKindREASON_OTHER), uint8(bpf.GoparksReasonKindREASON_RUN)
	if diff := cmp.Diff([]uint8{0, 0, 0, other, other, run, 0}, kinds[:len(want)]); diff != "" {
		t.Errorf("kinds: -want +got\n%s", diff)
	}
	for i, class := range map[int]string{1: recording.ClassRuntime, 2: recording.ClassIO, 6: recording.ClassUnknown, 99: recording.ClassUnknown} {
		if k := got.kind(i); k.class != class {
			t.Errorf("%q is of class %s, want %s", k.reason, k.class, class)
		}
	}
	if got := scanReasons(table[:40], text.read); got != nil {
		t.Errorf("found %v in junk", got)
	}
}

// FuzzScanReasons: whatever the memory holds, the scan ends and finds a table or none.
func FuzzScanReasons(f *testing.F) {
	table, text := reasonTable("", "GC assist marking", "IO wait")
	f.Add(table, text.data)
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, table, data []byte) {
		r := scanReasons(table, image{0x500000, data}.read)
		if r != nil && (len(r) > maxReasons || r[1] != reasonMark) {
			t.Errorf("found %q", r)
		}
	})
}
