package lockname

import "testing"

func TestLockOf(t *testing.T) {
	for callee, want := range map[string]string{
		"internal/sync.(*Mutex).lockSlow":                                 "sync.Mutex",
		"sync.(*RWMutex).Lock":                                            "sync.RWMutex",
		"sync.runtime_SemacquireRWMutexR":                                 "sync.RWMutex",
		"sync.(*Once).doSlow":                                             "sync.Once",
		"internal/sync.(*HashTrieMap[go.shape.int,a/b.(*T)]).LoadOrStore": "internal/sync.HashTrieMap",
		"golang.org/x/sync/singleflight.(*Group).Do":                      "golang.org/x/sync/singleflight.Group",
		"os.(*File).Write":                                                "os.File",
		"sync.(*Pool).pinSlow":                                            "",
		"sync.(*Cond).Wait":                                               "",
		"os.WriteFile":                                                    "",
		"sync.OnceValue[go.shape.*p.(*T)].func1":                          "",
	} {
		if got := lockOf(callee); got != want {
			t.Errorf("%s: got %q, want %q", callee, got, want)
		}
	}
}

func TestReceiverOf(t *testing.T) {
	for function, want := range map[string]string{
		"github.com/a/b/v2/server.(*client).put": "github.com/a/b/v2/server.client",
		"gopkg.in/yaml%2ev3.(*parser).init":      "gopkg.in/yaml.v3.parser",
		"main.(*T).m.func1":                      "",
		"main.(*T).m-fm":                         "",
		"main.(*T[go.shape.int]).m":              "",
		"main.T.m":                               "",
		"main.f[go.shape.*p.(*T).m]":             "",
	} {
		if got := receiverOf(function); got != want {
			t.Errorf("%s: got %q, want %q", function, got, want)
		}
	}
}

func TestSelector(t *testing.T) {
	for _, c := range [][3]string{
		{"github.com/a/b/v2/server.client", "mu", "server.(*client).mu"},
		{"main.table[go.shape.string,github.com/a/b.T]", "mu", "main.(*table[...]).mu"},
		{"gopkg.in/yaml.v3.parser", "mu", "yaml.v3.(*parser).mu"},
	} {
		if got := selector(c[0], c[1]); got != c[2] {
			t.Errorf("%s: got %q, want %q", c[0], got, c[2])
		}
	}
}

func TestOutermost(t *testing.T) {
	for function, want := range map[string]string{
		"a/b.(*T).run.func1.2":    "a/b.(*T).run",
		"main.main.gowrap1":       "main.main",
		"main.f.func2.deferwrap1": "main.f",
		"main.each-range1":        "main.each",
		"main.function":           "main.function",
	} {
		if got := outermost(function); got != want {
			t.Errorf("%s: got %q, want %q", function, got, want)
		}
	}
}

// A name that the source contradicts is none.
func TestContradicts(t *testing.T) {
	for _, c := range []struct {
		field, name string
		want        bool
	}{
		{"mu", "main.(*T).mu", false},
		{"mu", "main.(*T).shards[…].mu", false},
		{"locks", "main.(*T).locks[…]", false},
		{"state", "main.(*T).mu", true},
		{"queue", "main.(*queue).Mutex", false}, // x.queue.Lock() of an embedded lock
		{"", "mu in main.f", false},
		{"mu", "mu in main.f", false},
	} {
		if got := (taken{field: c.field}).contradicts(c.name); got != c.want {
			t.Errorf("%s for %s: %v", c.field, c.name, got)
		}
	}
}
