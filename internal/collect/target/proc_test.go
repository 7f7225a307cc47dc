package target

import (
	"debug/elf"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	const tail = " 1 2 2 0 -1 4194560 100 0 0 0 7 8 0 0 20 0 6 0 12345 1000 200 18446744073709551615 1 1"
	for _, tt := range []struct {
		name, in string
		want     stat
		err      string
	}{
		{"plain", "77 (broker) S" + tail, stat{'S', false, 12345}, ""},
		{"hostile name", "77 (a) R 1 (b) S" + tail, stat{'S', false, 12345}, ""},
		{"line feed in name", "77 (a\n) Z" + tail + "\n", stat{'Z', false, 12345}, ""},
		{"kernel thread", "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 9 0", stat{'S', true, 9}, ""},
		{"empty", "", stat{}, "stat: no command in parentheses"},
		{"short", "77 (a) S 1 2", stat{}, "stat: 3 fields after the command, fewer than 20"},
		{"state", "77 (a) SS" + tail, stat{}, `stat: state "SS" is not one letter`},
		{"flags", "77 (a) S 0 0 0 0 -1 x 0 0 0 0 0 0 0 0 20 0 1 0 9 0", stat{}, "stat: flags: "},
		{"start time", "77 (a) S 0 0 0 0 -1 1 0 0 0 0 0 0 0 0 20 0 1 0 -9 0", stat{}, "stat: start time: "},
	} {
		got, err := parseStat(strings.NewReader(tt.in))
		if got != tt.want || !matches(err, tt.err) {
			t.Errorf("%s: got %+v, %v; want %+v, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// matches reports whether err's text starts with prefix, or is nil where that is
// empty.
func matches(err error, prefix string) bool {
	if err == nil || prefix == "" {
		return err == nil && prefix == ""
	}
	return strings.HasPrefix(err.Error(), prefix)
}

func TestParseStatus(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     status
		err      string
	}{
		{"host", "Name:\tx\nTgid:\t77\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t77\n", status{77, 77, 1000}, ""},
		{"container", "Tgid:\t77\nUid:\t0\t0\t0\t0\nNSpid:\t77\t12\t1\n", status{77, 1, 0}, ""},
		{"no namespace", "Tgid:\t77\nUid:\t0\t0\t0\t0\n", status{}, "status: no NSpid"},
		{"no number", "Tgid:\tx\n", status{}, "status: Tgid: "},
	} {
		got, err := parseStatus(strings.NewReader(tt.in))
		if got != tt.want || !matches(err, tt.err) {
			t.Errorf("%s: got %+v, %v; want %+v, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestParseMaps(t *testing.T) {
	const in = `00400000-004ae000 r-xp 00000000 fe:01 1234                               /srv/my broker (deleted)
7f00-7f01 rw-p 00000000 00:00 0
7ffc000000-7ffc021000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
8000-9000 r--s 00001000 08:10 99 /a\012b
`
	want := []mapping{
		{0x400000, 0x4ae000, 0, true, 1234, "/srv/my broker (deleted)"},
		{0x7f00, 0x7f01, 0, false, 0, ""},
		{0x7ffc000000, 0x7ffc021000, 0, false, 0, "[stack]"},
		{0xffffffffff600000, 0xffffffffff601000, 0, true, 0, "[vsyscall]"},
		{0x8000, 0x9000, 0x1000, false, 99, "/a\nb"},
	}
	var got []mapping
	err := parseMaps(strings.NewReader(in), func(m mapping) bool { got = append(got, m); return true })
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mapping{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, line := range []string{"x", "1-2", "2-1 r-xp 0 0:0 0", "0-1 r-xp z 0:0 0", "0-1 r-xp 0 0:0 -1", strings.Repeat("a", 1<<16)} {
		if err := parseMaps(strings.NewReader(line), func(mapping) bool { return true }); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.80q: error %v", line, err)
		}
	}
}

func TestLoadBias(t *testing.T) {
	prog := func(flags elf.ProgFlag, off, vaddr uint64) *elf.Prog {
		return &elf.Prog{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: flags, Off: off, Vaddr: vaddr}}
	}
	const maps = `400000-401000 r--p 00000000 fe:01 7 /bin/x
55550000-55560000 r-xp 00001000 fe:01 8 /bin/other
55560000-55570000 r-xp 00001000 fe:01 7 /bin/x
`
	ours := func(m mapping) bool { return m.path == "/bin/x" }
	for _, tt := range []struct {
		name  string
		progs []*elf.Prog
		want  uint64
		err   error
	}{
		{"position-independent", []*elf.Prog{prog(elf.PF_R, 0, 0), prog(elf.PF_R|elf.PF_X, 0x1000, 0x1000)}, 0x5555f000, nil},
		{"segment not at a page's start", []*elf.Prog{prog(elf.PF_R|elf.PF_X, 0x1040, 0x2040)}, 0x5555e000, nil},
		{"fixed", []*elf.Prog{prog(elf.PF_R|elf.PF_X, 0x1000, 0x55560000)}, 0, nil},
		{"not mapped", []*elf.Prog{prog(elf.PF_R|elf.PF_X, 0x9000, 0x1000)}, 0, ErrExited},
	} {
		got, err := loadBias(strings.NewReader(maps), tt.progs, ours)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %#x, %v; want %#x, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
	if _, err := loadBias(strings.NewReader(maps), []*elf.Prog{prog(elf.PF_R, 0, 0)}, ours); err == nil {
		t.Error("an executable without code has a bias")
	}
}

// own adds this process's own file to a fuzz test's corpus.
func own(f *testing.F, name string) {
	data, err := os.ReadFile("/proc/self/" + name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
}

func FuzzStat(f *testing.F) {
	own(f, "stat")
	f.Fuzz(func(t *testing.T, in string) {
		if st, err := parseStat(strings.NewReader(in)); err != nil && st != (stat{}) {
			t.Errorf("%+v beside %v", st, err)
		}
	})
}

func FuzzStatus(f *testing.F) {
	own(f, "status")
	f.Fuzz(func(t *testing.T, in string) {
		if st, err := parseStatus(strings.NewReader(in)); err != nil && st != (status{}) {
			t.Errorf("%+v beside %v", st, err)
		}
	})
}

func FuzzMaps(f *testing.F) {
	own(f, "maps")
	f.Fuzz(func(t *testing.T, in string) {
		_ = parseMaps(strings.NewReader(in), func(m mapping) bool {
			if m.end < m.start {
				t.Errorf("mapping %+v ends before it starts", m)
			}
			return true
		})
	})
}
