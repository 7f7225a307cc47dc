package render

import (
	"encoding/xml"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"main.(*queue).put":  "main.(*queue).put",
		"世界":                 "世界",
		"a\x00b\x1bc\x7f":    `a\x00b\x1bc\x7f`,
		"a\nb\tc":            `a\nb\tc`,
		"\xff\xfe":           `\xff\xfe`,
		"a\u202eb\u200bc":    `a\u202eb\u200bc`,
		"\ufffe\u2028\u0085": `\ufffe\u2028\u0085`,
		"\ufffd":             "\ufffd", // a real replacement character is visible already
		"&nbsp;</script>":    "&nbsp;</script>",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, n := range hostileNames {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, got := range []string{clean(name), short(name), shortSite(name), fit(clean(name), 10), csvName(name), markdownName(name), markdownText(name)} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, hidden) {
				t.Errorf("%q became %q", name, got)
			}
		}
		if n := utf8.RuneCountInString(fit(clean(name), 10)); n > 10 {
			t.Errorf("fit gave %d characters", n)
		}
		if err := xml.Unmarshal([]byte("<a>"+escape(name)+"</a>"), new(struct{})); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if strings.ContainsAny(markdownText(name), "|<>`*\n") {
			t.Errorf("%q became %q", name, markdownText(name))
		}
	})
}

func TestShort(t *testing.T) {
	for in, want := range map[string]string{
		"github.com/nats-io/nats-server/v2/server.(*stream).mu":             "server.(*stream).mu",
		"internal/sync.(*Mutex).lockSlow":                                   "sync.(*Mutex).lockSlow",
		"main.main.func1":                                                   "main.main.func1",
		"executor queue":                                                    "executor queue",
		"read/write queue":                                                  "read/write queue", // a rule's name
		"[stack lost, for a reason that takes long]":                        "[stack lost, for a reason that takes long]",
		"example.com/a/b.Map[go.shape.struct { github.com/x/y.A int }].Get": "b.Map[...].Get",
		"b.Map[int].Get":                                                    "b.Map[int].Get",
		"gopkg.in/yaml%2ev3.(*decoder).unmarshal":                           "yaml%2ev3.(*decoder).unmarshal",
	} {
		if got := short(in); got != want {
			t.Errorf("short(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShortSite(t *testing.T) {
	for in, want := range map[string]string{
		"github.com/a/b.(*T).Run /src/b/t.go:12": "b.(*T).Run  t.go:12",
		"b.F[go.shape.int] /with space/t.go:12":  "b.F[go.shape.int] /with  t.go:12",
		"[unknown]":                              "[unknown]",
		"main.f":                                 "main.f",
		"":                                       "",
	} {
		if got := shortSite(in); got != want {
			t.Errorf("shortSite(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMarkdownName(t *testing.T) {
	for in, want := range map[string]string{
		"server.(*stream).mu": "`server.(*stream).mu`",
		"a|b":                 "<code>a&#124;b</code>",
		"a`b":                 "<code>a&#96;b</code>",
		`a\`:                  "<code>a&#92;</code>",
		"a & @team":           "`a & @team`",
		"<b>":                 "<code>&#60;b&#62;</code>",
		"`|<script>@x":        "<code>&#96;&#124;&#60;script&#62;&#64;x</code>",
		"":                    "",
	} {
		if got := markdownName(in); got != want {
			t.Errorf("markdownName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCSVName(t *testing.T) {
	for in, want := range map[string]string{"=1+1": "'=1+1", "@x": "'@x", "-a": "'-a", "+a": "'+a", "main.f": "main.f", "": "", "\t=x": `\t=x`} {
		if got := csvName(in); got != want {
			t.Errorf("csvName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCapital(t *testing.T) {
	for in, want := range map[string]string{"": "", "locks": "Locks", "äther": "Äther", "世界": "世界"} {
		if got := capital(in); got != want {
			t.Errorf("capital(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"short", 10, "short"}, {"server.(*stream).processInboundMsg", 20, "server…essInboundMsg"}, {"abc", 1, "…"}, {"世界世界世界", 4, "世…世界"}} {
		if got := fit(c.in, c.n); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}
