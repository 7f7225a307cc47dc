package symbolize

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

func TestInterner(t *testing.T) {
	b := open(t, "stripped")
	const bias = 0x10000000
	main, err := b.Func("main.main")
	if err != nil {
		t.Fatal(err)
	}
	goexit, err := b.Func("runtime.goexit")
	if err != nil {
		t.Fatal(err)
	}
	push, err := b.ProbePoint("main.main")
	if err != nil {
		t.Fatal(err)
	}
	p := &profile.Profile{}
	in := NewInterner(p, b, bias)

	names := func(locs []*profile.Location) string {
		var names []string
		for _, loc := range locs {
			for _, l := range loc.Line {
				names = append(names, l.Function.Name)
			}
		}
		return strings.Join(names, " ")
	}
	entry, inside := main.Entry+bias, push.Addr+1+bias
	for _, tt := range []struct {
		pcs          []uint64
		leafIsReturn bool
		want         string
	}{
		{[]uint64{entry}, false, "main.main"},
		{[]uint64{goexit.Entry + bias, inside, goexit.Entry + 1 + bias}, false, "runtime.goexit main.main"},
		{[]uint64{inside, goexit.Entry + 1 + bias}, true, "main.main"},
		{[]uint64{1, 2, 3, inside, 0, ^uint64(0)}, true, "[unknown] main.main [unknown]"},
		{nil, true, ""},
	} {
		if got := names(in.Stack(tt.pcs, tt.leafIsReturn)); got != tt.want {
			t.Errorf("%#x: got %q, want %q", tt.pcs, got, tt.want)
		}
	}
	if leaf := in.Stack([]uint64{entry}, true); cmp.Equal(names(leaf), "main.main") {
		t.Error("the return address at main.main's entry is of the function before it")
	}

	mark, kernel := in.Mark("[truncated]"), in.Kernel("futex_wait")
	if in.Mark("[truncated]") != mark || in.Kernel("futex_wait") != kernel {
		t.Error("a name has two locations")
	}
	if in.Mark("schedule") == in.Kernel("schedule") {
		t.Error("a mark and a kernel function share a location")
	}
	if f := in.Kernel("futex_wait").Line[0].Function; f.Filename != "kernel" {
		t.Errorf("kernel function: %+v", f)
	}
	before := len(p.Location)
	in.Stack([]uint64{entry, inside}, false)
	if len(p.Location) != before {
		t.Error("known addresses made new locations")
	}
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
	m := p.Mapping[0]
	if m.File != "stripped" || m.BuildID != b.BuildID() || entry < m.Start || entry >= m.Limit {
		t.Errorf("mapping %+v", m)
	}
}
