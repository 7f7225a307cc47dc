package symbolize

import (
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestFindPush decodes each form of prologue that Go 1.21 to 1.27 emit, and what
// must not be taken for one.
func TestFindPush(t *testing.T) {
	const body = " 55 4889e5 4883ec10 c3"
	for _, tt := range []struct {
		name, code string
		want       int
		err        string
	}{
		{"no stack check", "55 4889e5 c3", 0, ""},
		{"small frame", "493b6610 7640" + body, 6, ""},
		{"small frame, far morestack", "493b6610 0f8600010000" + body, 10, ""},
		{"system stack", "493b6618 7640" + body, 6, ""},
		{"large frame", "4c8d6424d8 4d3b6610 7640" + body, 11, ""},
		{"large frame, far morestack", "4c8d6424d8 4d3b6610 0f8600010000" + body, 15, ""},
		{"larger frame", "4c8da424d0fdffff 4d3b6610 0f8600010000" + body, 18, ""},
		{"huge frame", "4989e4 4981ec00000100 0f8240000000 4d3b6610 0f8600010000" + body, 26, ""},
		{"frame not kept in BP", "493b6610 7640 55 4883ec10", 0, "found SUBQ $0x10, SP at +0x7"},
		{"other push", "53 4889e5", 0, "found PUSHQ BX at +0x0"},
		{"assembly", "488b5c2408 488b13", 0, "found MOVQ 0x8(SP), BX at +0x0"},
		{"backward jump", "493b6610 76f0" + body, 0, "at +0x4"},
		{"jump without a check", "7640" + body, 0, "at +0x0"},
		{"other comparison", "493b6620 7640" + body, 0, "found CMPQ SP, 0x20(R14) at +0x0"},
		{"breaks off", "493b6610 7640", 0, "the code ends at +0x6"},
		{"breaks off inside", "493b", 0, "undecodable instruction at +0x0"},
		{"empty", "", 0, "the code ends at +0x0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findPush(unhex(t, tt.code))
			if got != tt.want || (err == nil) != (tt.err == "") || !strings.Contains(errText(err), tt.err) {
				t.Errorf("got +%d, %v; want +%d, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func unhex(t *testing.T, code string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(code, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestFindJumpAfterCall(t *testing.T) {
	// callee is at 0x1100, so that a call at 0x1000 has the offset 0xfb.
	for _, tt := range []struct {
		name, code string
		want       int
		err        string
	}{
		{"conditional", "e8fb000000 488b442440 83783800 740f c3", 14, ""},
		{"unconditional", "e8fb000000 eb02 9090 c3", 5, ""},
		{"far", "e8fb000000 0f8400010000 c3", 5, ""},
		{"jump over both", "7407 e8f9000000 7402 90 c3", 7, ""},
		{"called twice", "e8fb000000 7400 e8f4000000 7400 c3", 0, "more than once"},
		{"not called", "e8aa000000 7400 c3", 0, "not called"},
		{"returns first", "e8fb000000 c3", 0, "found RET at +0x5"},
		{"calls first", "e8fb000000 e800000000 7400", 0, "found CALL"},
		{"indirect jump", "e8fb000000 ffe0", 0, "found JMP AX at +0x5"},
		{"reached from elsewhere", "e8fb000000 85c0 7402 75fa c3", 0, "the jump at +0x9 leads between the two"},
		{"ends", "e8fb000000 90", 0, "the code ends first"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findJumpAfterCall(unhex(t, tt.code), 0x1000, 0x1100)
			if got != tt.want || (err == nil) != (tt.err == "") || !strings.Contains(errText(err), tt.err) {
				t.Errorf("got +%d, %v; want +%d, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

// TestProbePoints finds the probes of the runtime functions that a goroutine's
// waits are read from, in every kind of build.
func TestProbePoints(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind)
			file, err := os.ReadFile(build(t, kind))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{
				"runtime.park_m", "runtime.ready", "runtime.netpollready", "runtime.injectglist", "runtime.execute",
				"runtime.(*semaRoot).queue", "runtime.(*semaRoot).dequeue", "runtime.readyWithTime",
				"runtime.semacquire1", "runtime.semrelease1", "runtime.gopark", "runtime.mcall",
				"runtime.findRunnable", "runtime.preemptPark", "main.huge",
			} {
				pp, err := b.ProbePoint(name)
				if err != nil {
					t.Error(err)
					continue
				}
				if pp.Func.Name != name || file[pp.Offset] != 0x55 || pp.Addr < pp.Func.Entry || pp.Addr >= pp.Func.End {
					t.Errorf("%s: %+v, byte %#x there", name, pp, file[pp.Offset])
				}
				if frames := b.Frames(pp.Addr); len(frames) != 1 || frames[0].Func != name {
					t.Errorf("%s: the probe point is in %+v", name, frames)
				}
			}
			pp, err := b.JumpAfterCall("runtime.semacquire1", "runtime.gopark")
			if err != nil {
				t.Fatal(err)
			}
			inst, err := x86asm.Decode(file[pp.Offset:pp.Offset+16], 64)
			if err != nil || inst.Op != x86asm.JE {
				t.Errorf("runtime.semacquire1+%#x is %v, %v; want a JE", pp.Addr-pp.Func.Entry, inst, err)
			}
			// if s.ticket != 0 || cansemacquire(addr)
			if frames := b.Frames(pp.Addr); len(frames) != 1 || frames[0].Func != "runtime.semacquire1" {
				t.Errorf("the jump is in %+v", frames)
			}
		})
	}
}

// TestProbePointsOfAll looks at every function of a real binary: all that the
// compiler made have a frame pushed, or no frame.
func TestProbePointsOfAll(t *testing.T) {
	b := open(t, "plain")
	found := 0
	for i := range b.table.nfunc {
		f := b.table.record(i)
		code, err := b.Code(Func{Entry: b.module.text + uint64(f.entryOff()), End: b.module.text + uint64(f.endOff())})
		if err != nil {
			t.Fatal(f.name(), err)
		}
		_, err = findPush(code)
		if err == nil {
			found++
			continue
		}
		inst, decodeErr := x86asm.Decode(code, 64)
		if decodeErr == nil && isStackCompare(inst) {
			t.Errorf("%s checks its stack, but: %v", f.name(), err)
		}
	}
	if found < b.table.nfunc*2/3 {
		t.Errorf("probe points in only %d of %d functions", found, b.table.nfunc)
	}
	t.Logf("probe points in %d of %d functions", found, b.table.nfunc)
}

func TestProbePointErrors(t *testing.T) {
	b := open(t, "stripped")
	_, err := b.ProbePoint("runtime.nosuch")
	if !errors.Is(err, ErrNoFunc) || err.Error() != "runtime.nosuch: no such function in this binary" {
		t.Error(err)
	}
	_, err = b.ProbePoint("runtime.goready") // inlined everywhere
	if !errors.Is(err, ErrNoFunc) {
		t.Error(err)
	}
	_, err = b.ProbePoint("runtime.gogo")
	if err == nil || err.Error() != "runtime.gogo: no frame is pushed at its entry: found MOVQ 0x8(SP), BX at +0x0" {
		t.Error(err)
	}
	_, err = b.JumpAfterCall("runtime.park_m", "runtime.gopark")
	if err == nil || err.Error() != "runtime.park_m: no jump to probe after its call of runtime.gopark: it is not called" {
		t.Error(err)
	}
	if _, err = b.Offset(0); err == nil {
		t.Error("address 0 has a file offset")
	}
}

// TestFuncOfTwo finds bodies where the table also has a wrapper of the name, for
// the other calling convention.
func TestFuncOfTwo(t *testing.T) {
	b := open(t, "stripped")
	count, body := map[string]int{}, map[string]uint64{}
	for i := range b.table.nfunc {
		f := b.table.record(i)
		count[f.name()]++
		if f.funcID() != b.layout.wrapper {
			body[f.name()] = b.module.text + uint64(f.entryOff())
		}
	}
	twice := 0
	for name, n := range count {
		if n != 2 || body[name] == 0 {
			continue
		}
		twice++
		if f, err := b.Func(name); err != nil || f.Entry != body[name] {
			t.Errorf("%s: got %+v, %v; want entry %#x", name, f, err, body[name])
		}
	}
	if twice < 10 {
		t.Errorf("only %d names were double: too few to test", twice)
	}
	if _, err := b.Func(""); !errors.Is(err, ErrNoFunc) {
		t.Error("empty name:", err)
	}
}

func TestInlinedIn(t *testing.T) {
	got := open(t, "stripped").InlinedIn("main.inlinedOnce", "main.capture", "main.nosuch", "runtime.goready", "runtime.park_m")
	for _, want := range []string{"main.main", "main.last"} {
		if !strings.Contains(strings.Join(got["main.inlinedOnce"], " "), want) {
			t.Errorf("main.inlinedOnce is inlined in %v, not in %s", got["main.inlinedOnce"], want)
		}
	}
	if len(got["runtime.goready"]) == 0 {
		t.Error("runtime.goready is inlined nowhere")
	}
	for _, name := range []string{"main.capture", "main.nosuch", "runtime.park_m"} {
		if got[name] != nil {
			t.Errorf("%s is inlined in %v", name, got[name])
		}
	}
}

func TestNameOffsets(t *testing.T) {
	b := &Binary{table: &pclntab{funcname: []byte("\x00p.f\x00q.p.f\x00p.f\x00p.f.func1\x00p.f")}}
	if got := b.nameOffsets("p.f"); !slices.Equal(got, []uint32{1, 11}) {
		t.Errorf("got %v, want both whole names", got)
	}
	if got := b.nameOffsets(""); got != nil {
		t.Errorf("empty name: %v", got)
	}
}
