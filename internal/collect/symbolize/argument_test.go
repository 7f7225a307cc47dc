package symbolize

import (
	"strings"
	"testing"
)

// The code of semrelease1 up to its call of lock2, as Go 1.26.8 compiles it with a
// profile, without the hash of the address; the call is at +33.
var semrelease = []byte{
	0x55,             // PUSHQ BP
	0x48, 0x89, 0xe5, // MOVQ SP, BP
	0x48, 0x83, 0xec, 0x48, // SUBQ $0x48, SP
	0x48, 0x89, 0xc2, // MOVQ AX, DX
	0x48, 0xc1, 0xe8, 0x03, // SHRQ $3, AX
	0x48, 0x89, 0xd7, // MOVQ DX, DI
	0x48, 0xf7, 0xe6, // MULQ SI
	0x48, 0x89, 0x7c, 0x24, 0x40, // MOVQ DI, 0x40(SP)
	0x88, 0x5c, 0x24, 0x60, // MOVB BL, 0x60(SP)
	0x90, 0x90, 0x90, // NOPs
	0xe8, 0, 0, 0, 0, // CALL
	0x85, 0xd2, // TESTL DX, DX
	0x74, 0x02, // JE
	0xc3, 0xc3, 0xc3,
}

const semreleaseJump = 40

func TestFindArgument(t *testing.T) {
	const entry = 0x1000
	slot, err := findArgument(semrelease, entry, semreleaseJump)
	if err != nil || slot != 0x40 {
		t.Fatalf("slot %#x, %v", slot, err)
	}
	for name, change := range map[string]struct {
		at   int
		code []byte
		err  string
	}{
		"not stored":     {21, []byte{0x90, 0x90, 0x90, 0x90, 0x90}, "does not keep"},
		"another stored": {21, []byte{0x48, 0x89, 0x74, 0x24, 0x40}, "does not keep"},             // MOVQ SI, 0x40(SP)
		"overwritten":    {26, []byte{0x48, 0x89, 0x74, 0x24, 0x40, 0x90, 0x90}, "does not keep"}, // likewise, after
		"SP moves":       {30, []byte{0x50, 0x90, 0x90}, "does not keep"},                         // PUSHQ AX
		"jumped over":    {15, []byte{0xeb, 0x09, 0x90}, "does not keep"},                         // JMP behind the store
	} {
		code := append([]byte(nil), semrelease...)
		copy(code[change.at:], change.code)
		if slot, err := findArgument(code, entry, semreleaseJump); err == nil || !strings.Contains(err.Error(), change.err) {
			t.Errorf("%s: slot %#x, %v", name, slot, err)
		}
	}
}

// TestJumpWithArgument: every build of the target has it.
func TestJumpWithArgument(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := open(t, kind)
			p, slot, err := b.JumpWithArgument("runtime.semrelease1", "runtime.lock2")
			if err != nil || p.Offset == 0 || slot <= 0 || slot%8 != 0 {
				t.Errorf("%+v, slot %#x, %v", p, slot, err)
			}
			p, slot, err = b.CallWithArgument("runtime.semacquire1", "runtime.gopark")
			if err != nil || p.Offset == 0 || slot <= 0 || slot%8 != 0 {
				t.Errorf("%+v, slot %#x, %v", p, slot, err)
			}
			if _, _, err := b.CallWithArgument("runtime.semacquire1", "runtime.semrelease1"); err == nil {
				t.Error("semacquire1 calls semrelease1")
			}
		})
	}
}
