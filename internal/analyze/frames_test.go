package analyze

import "testing"

func TestFunctionKey(t *testing.T) {
	for name, want := range map[string]string{
		"main.f":                          "main.f",
		"main.(*server).run.func1":        "main.(*server).run.func",
		"main.(*server).run.func2.1":      "main.(*server).run.func",
		"main.run.func3.gowrap2":          "main.run.func.gowrap",
		"main.run.deferwrap1":             "main.run.deferwrap",
		"main.run-range1":                 "main.run-range",
		"main.(*q).put-fm":                "main.(*q).put",
		"main.init.0":                     "main.init",
		"main.init.0.func1":               "main.init.func",
		"main.v2.func10x":                 "main.v2.funcx", // a name that looks generated may lose digits, on both sides
		"internal/sync.(*Mutex).lockSlow": "sync.(*Mutex).lockSlow",
		"sync.(*Mutex).Lock":              "sync.(*Mutex).Lock",
		"main.(*Q[go.shape.*uint8]).Put":  "main.(*Q[...]).Put",
		"main.Map[go.shape.struct { a/b.X; Y []int },go.shape.int].func1": "main.Map[...].func",
		"main.cut[go.shape.struct { Y []int":                              "main.cut[...]",
		"[unknown]":                                                       "[unknown]",
		"":                                                                "",
	} {
		if got := functionKey(name); got != want {
			t.Errorf("functionKey(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestFrameKind(t *testing.T) {
	modules := map[string]bool{"contend": true, "log": true}
	for name, want := range map[string]string{
		"main.f":                                KindApp,
		"contend/internal/x.F":                  KindApp,
		"contend.F":                             KindApp,
		"log/sub.F":                             KindApp, // a module named like a standard package is the user's
		"contender/x.F":                         KindApp, // no standard root either
		"net/http.(*conn).serve":                KindStd,
		"vendor/golang.org/x/net/http2/hpack.F": KindStd,
		"golang.org/x/net/http2.(*Framer).ReadFrame":    KindApp,
		"gopkg.in/yaml%2ev3.(*parser).parse":            KindApp,
		"slices.SortFunc[go.shape.[]example.com/a/b.T]": KindStd,
		"main.(*Q[go.shape.struct { net/http.X }]).Put": KindApp,
		"runtime.gopark":                    KindRuntime,
		"runtime/pprof.Do":                  KindStd,
		"internal/runtime/syscall.Syscall6": KindRuntime,
		"internal/poll.(*FD).Read":          KindStd,
		"malloc":                            KindNative,
		"std::thread::join(a.b)":            KindNative,
		"":                                  KindMark,
		"[unknown]":                         KindMark,
		"org.apache.bookkeeper.Queue.offer": KindApp,
	} {
		if got := frameKind(name, modules); got != want {
			t.Errorf("frameKind(%q) = %s, want %s", name, got, want)
		}
	}
}
