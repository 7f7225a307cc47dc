// Package livetest says whether tests can observe live processes here.
package livetest

import (
	"os"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Require skips a test that loads BPF programs where the kernel or the
// privileges do not allow it. With CONTEND_REQUIRE_BPF set, as in CI, that is a
// failure: a suite that skips all of its evidence has shown nothing.
func Require(t testing.TB) {
	t.Helper()
	if err := loadable(); err != nil {
		if os.Getenv("CONTEND_REQUIRE_BPF") != "" {
			t.Fatalf("CONTEND_REQUIRE_BPF is set, and BPF programs cannot be loaded: %v", err)
		}
		t.Skipf("BPF programs cannot be loaded: %v", err)
	}
}

// RequireRoot skips a test that only root can make, as Require does.
func RequireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CONTEND_REQUIRE_BPF") != "" {
		t.Fatal("CONTEND_REQUIRE_BPF is set, and this is not root")
	}
	t.Skip("needs root")
}

// loadable loads the smallest program of the type that uprobes need.
var loadable = sync.OnceValue(func() error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.Kprobe,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		License:      "Dual BSD/GPL",
	})
	if err != nil {
		return err
	}
	return prog.Close()
})
