package offcpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"contend/bpf"
	"contend/internal/recording"
)

const symbols = `ffffffff81000200 T second
ffffffff81000000 T first
ffffffff81000100 d data
ffffffffc0000000 t inner	[module]
ffffffff81000080 T middle
`

func TestResolve(t *testing.T) {
	got, err := resolve(strings.NewReader(symbols), []uint64{
		0xffffffff81000000, 0xffffffff8100007f, 0xffffffff81000180, 0xffffffff81000210, 0xffffffffc0000010, 0x1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint64]string{
		0xffffffff81000000: "first", 0xffffffff8100007f: "first", 0xffffffff81000180: "middle",
		0xffffffff81000210: "second", 0xffffffffc0000010: "inner",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, hidden := range []string{"", "0000000000000000 T _text\n0000000000000000 t f\n"} {
		if _, err := resolve(strings.NewReader(hidden), []uint64{1}); !errors.Is(err, errRestricted) {
			t.Errorf("%q: %v, want errRestricted", hidden, err)
		}
	}
}

func FuzzResolve(f *testing.F) {
	f.Add(symbols, uint64(0xffffffff81000180))
	f.Add("0 T x\nz T y\n1 T \n2 T\n", uint64(3))
	f.Fuzz(func(t *testing.T, table string, addr uint64) {
		names, err := resolve(strings.NewReader(table), []uint64{addr, addr, 0})
		for a, name := range names {
			if err != nil || name == "" || a != addr && a != 0 {
				t.Errorf("%#x is %q, error %v", a, name, err)
			}
		}
	})
}

func TestClassify(t *testing.T) {
	syscall, locked := bpf.OffcpuOffFlagsOFF_SYSCALL, bpf.OffcpuOffFlagsOFF_LOCKED
	for _, tt := range []struct {
		stack string
		flags bpf.OffcpuOffFlags
		want  string
	}{
		{"internal/runtime/syscall/linux.Syscall6 syscall.RawSyscall6 syscall.Syscall syscall.Fsync main.f", syscall, recording.ClassSyscall},
		{"runtime.futex runtime.futexsleep runtime.notetsleep_internal runtime.notetsleepg os/signal.signal_recv", syscall, recording.ClassSyscall},
		{"runtime.futex runtime.futexsleep runtime.notesleep runtime.mPark runtime.stopm runtime.findRunnable runtime.schedule", syscall, recording.ClassRuntime},
		{"internal/runtime/syscall/linux.Syscall6 internal/runtime/syscall/linux.EpollWait runtime.netpoll runtime.findRunnable", syscall, recording.ClassIO},
		{"runtime.usleep runtime.sysmon runtime.mstart1", syscall, recording.ClassRuntime},
		{"runtime.futex runtime.futexsleep runtime.lock2 runtime.chansend main.f", syscall, recording.ClassRuntime},
		{"runtime.gopark runtime.semacquire1 internal/sync.runtime_SemacquireMutex internal/sync.(*Mutex).lockSlow main.f", syscall | locked, recording.ClassLock},
		{"runtime.gopark runtime.chanrecv runtime.chanrecv1 main.f", syscall | locked, recording.ClassChannel},
		{"runtime.gopark runtime.semacquire1 sync.runtime_SemacquireWaitGroup sync.(*WaitGroup).Wait", syscall | locked, recording.ClassJoin},
		{"runtime.gopark time.Sleep main.f", syscall | locked, recording.ClassSleep},
		{"main.f main.main", syscall | locked, recording.ClassRuntime}, // it waits for a P
		{"[unknown] main.f", syscall, recording.ClassSyscall},          // C code
		{"main.touch", 0, recording.ClassSyscall}, // a page fault
		{"", 0, recording.ClassUnknown},
	} {
		if got := classify(strings.Fields(tt.stack), tt.flags); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.stack, got, tt.want)
		}
	}
}

func TestDecodeTLS(t *testing.T) {
	for _, tt := range []struct {
		code []byte
		want int64
	}{
		{[]byte{0x64, 0x48, 0x8b, 0x3c, 0x25, 0xf8, 0xff, 0xff, 0xff}, -8},               // Go's own linking
		{[]byte{0x48, 0xc7, 0xc1, 0x60, 0xff, 0xff, 0xff, 0x64, 0x48, 0x8b, 0x39}, -160}, // PIE beside C
		{[]byte{0x48, 0xc7, 0xc1, 0x60, 0xff, 0xff, 0xff, 0x64, 0x48, 0x8b, 0x38}, 0},    // another register
		{[]byte{0x64, 0x48, 0x8b, 0x3c, 0x25, 0xf8, 0xff}, 0},                            // cut
		{nil, 0},
	} {
		got, err := decodeTLS(tt.code)
		if got != tt.want || (err == nil) != (tt.want != 0) {
			t.Errorf("% x: %d, %v, want %d", tt.code, got, err, tt.want)
		}
	}
}

func FuzzParseThreads(f *testing.F) {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, bpf.OffcpuOpenWait{Off: 1, Tid: 2})
	f.Add(b.Bytes())
	f.Add([]byte{1})
	size := binary.Size(bpf.OffcpuOpenWait{})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseThreads(bytes.NewReader(data))
		if whole := len(data)%size == 0; whole != (err == nil) || err == nil && len(got) != len(data)/size {
			t.Errorf("%d threads of %d bytes, error %v", len(got), len(data), err)
		}
	})
}

// Threads still off the CPU are cut at the window's edges, and their wait split
// at the wake.
func TestAddOpen(t *testing.T) {
	blocked, preempted := uint8(bpf.OffcpuOffStateOFF_BLOCKED), uint8(bpf.OffcpuOffStateOFF_PREEMPTED)
	const start, stop = 1000, 2000
	for _, tt := range []struct {
		off, waking     uint64
		state           uint8
		sleeping, queue uint64
		edge            bpf.OffcpuOffEdge
	}{
		{1500, 0, blocked, 500, 0, bpf.OffcpuOffEdgeOFF_EDGE_END},
		{500, 0, blocked, 1000, 0, bpf.OffcpuOffEdgeOFF_EDGE_END | bpf.OffcpuOffEdgeOFF_EDGE_START},
		{1500, 1900, blocked, 400, 100, bpf.OffcpuOffEdgeOFF_EDGE_END},
		{500, 600, blocked, 0, 1000, bpf.OffcpuOffEdgeOFF_EDGE_END | bpf.OffcpuOffEdgeOFF_EDGE_START},
		{1500, 0, preempted, 0, 500, bpf.OffcpuOffEdgeOFF_EDGE_END},
		{1500, 2100, blocked, 500, 0, bpf.OffcpuOffEdgeOFF_EDGE_END}, // woken after the window
	} {
		h := harvest{sums: map[bpf.OffcpuOffKey]bpf.OffcpuOffSum{}}
		w := bpf.OffcpuOpenWait{Off: tt.off, Waking: tt.waking, Open: 1, Key: bpf.OffcpuOffKey{State: tt.state}}
		h.addOpen([]bpf.OffcpuOpenWait{w, {Off: 1500}}, start, stop) // the second is not open
		total := tt.sleeping + tt.queue
		want := map[bpf.OffcpuOffKey]bpf.OffcpuOffSum{
			{State: tt.state, Edge: uint8(tt.edge), Bucket: log2(total)}: {Count: 1, Sleeping: tt.sleeping, Runqueue: tt.queue, Max: total},
		}
		if fmt.Sprint(h.sums) != fmt.Sprint(want) {
			t.Errorf("off %d, woken %d:\n got %v\nwant %v", tt.off, tt.waking, h.sums, want)
		}
	}
}
