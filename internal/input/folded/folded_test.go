package folded

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"contend/internal/input/stacks"
)

// names are the frames of a sample, root first.
func names(s *profile.Sample) []string {
	var out []string
	for i := len(s.Location) - 1; i >= 0; i-- {
		out = append(out, s.Location[i].Line[0].Function.Name)
	}
	return out
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want []string
		ns   int64
	}{
		"plain":                    {"main.main;main.f;sync.(*Mutex).Lock 12", []string{"main.main", "main.f", "sync.(*Mutex).Lock"}, 12},
		"a space in a frame":       {"StubRoutines (1);call_stub 7", []string{"StubRoutines (1)", "call_stub"}, 7},
		"contend's escapes":        {`a\x3bb;c\x5cd;e\x0af 3`, []string{"a;b", `c\d`, "e\nf"}, 3},
		"an unescaped Go type":     {"main.f;main.(*pair[struct { A int; B string }]).lock;sync.(*Mutex).Lock 5", []string{"main.f", "main.(*pair[struct { A int; B string }]).lock", "sync.(*Mutex).Lock"}, 5},
		"a Java array":             {"a.B.c([BI)V;d.E.f 1", []string{"a.B.c([BI)V", "d.E.f"}, 1},
		"perf-map-agent":           {"Lorg/x/Queue;::offer;Unsafe_Park 9", []string{"Lorg/x/Queue;::offer", "Unsafe_Park"}, 9},
		"annotations":              {"java/lang/Thread.run_[j];schedule_[k] 2", []string{"java/lang/Thread.run", "schedule"}, 2},
		"offcputime's delimiter":   {"comm;main;-;schedule 4", []string{"comm", "main", "schedule"}, 4},
		"an empty frame":           {"a;;b 1", []string{"a", stacks.Unknown, "b"}, 1},
		"a fraction, as per op":    {"a;b 1.6", []string{"a", "b"}, 2},
		"carriage return":          {"a;b 1\r", []string{"a", "b"}, 1},
		"more than a number holds": {"a;b 1e300", []string{"a", "b"}, 1<<62 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse([]byte(c.line+"\n"), time.Nanosecond)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, names(p.Sample[0])); diff != "" {
				t.Error(diff)
			}
			if v := p.Sample[0].Value; len(v) != 1 || v[0] < c.ns || v[0] > c.ns+1 {
				t.Errorf("value %v, want %d", v, c.ns)
			}
			if err := p.CheckValid(); err != nil {
				t.Error(err)
			}
		})
	}
	p, err := Parse([]byte("a;schedule_[k] 2\n"), time.Microsecond)
	if err != nil || p.Sample[0].Value[0] != 2000 || p.Sample[0].Location[0].Line[0].Function.Filename != stacks.KernelFile {
		t.Errorf("%v %v", p, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"a;b 1\nc;d\n":     "line 2 of the folded stacks does not end in a number",
		"a;b -3\n":         "negative",
		"a;b 1 2\nc 3 4\n": "differential",
		"\n\n":             "without a stack",
	} {
		if _, err := Parse([]byte(in), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something of %q", in, err, want)
		}
	}
}

func TestIs(t *testing.T) {
	for in, want := range map[string]bool{
		"a;b 1\n": true, "a 1\nb;c 2\n": true, "": false, "a 1\n": false, "404 page not found\n": false,
		"goroutine 1 [running]:\n": false, "a;b\n": false, "GET / 200\n": false,
	} {
		if Is([]byte(in)) != want {
			t.Errorf("%q: want %v", in, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a;b 1\n", `a\x3b;b 2`, "main.f[struct { a; b }] 3", "Lx/Y;::z;w_[k] 4\n-;q 1e9", "a 1 2\n", ";;; 0\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		Is(in)
		p, err := Parse(in, time.Microsecond)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of more than a line: %q", err)
			}
			return
		}
		if err := p.CheckValid(); err != nil {
			t.Error(err)
		}
		for _, s := range p.Sample {
			if len(s.Location) == 0 || s.Value[0] < 0 {
				t.Errorf("sample %v", s)
			}
		}
	})
}
