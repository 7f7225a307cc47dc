package operations

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

const metrics = `# HELP messages_total Messages.
# TYPE messages_total counter
messages_total{topic="a",kind="in"} 100
messages_total{topic="b",kind="in"} 20
messages_total{topic="a",kind="out"} 3
# TYPE seconds histogram
seconds_bucket{le="1"} 5
seconds_bucket{le="+Inf"} 7
seconds_sum 12.5
seconds_count 7
# TYPE depth gauge
depth 42
no_type_given 9
`

// The monitoring pages of real brokers, shortened.
const (
	varz   = `{"server_id":"NA","in_msgs":7265,"out_msgs":29060,"mem":15552512}`
	nsq    = `{"version":"1.3.0","topics":[{"topic_name":"a","message_count":5,"channels":[{"message_count":4}]},{"topic_name":"b","message_count":7,"channels":[]}]}`
	expvar = `{"cmdline":["x"],"http.requests":11,"memstats":{"Mallocs":3},"map":{"a":{"b.c":{"d":8}}},"text":"18446744073709","empty":{}}`
)

func TestValue(t *testing.T) {
	for _, test := range []struct {
		body, name string
		want       float64
		err        string
	}{
		{metrics, "messages_total", 123, ""},
		{metrics, `messages_total{topic="a"}`, 103, ""},
		{metrics, `messages_total{kind="in",topic="b"}`, 20, ""},
		{metrics, `messages_total{topic="c"}`, 0, "none of the 3 series of messages_total has these labels"},
		{metrics, "seconds_count", 7, ""},
		{metrics, "seconds", 0, "seconds is a histogram: count its seconds_count"},
		{metrics, "depth", 42, ""},
		{metrics, "no_type_given", 9, ""},
		{metrics, "absent_total", 0, "none of its 4 metrics is called absent_total"},
		{varz, "in_msgs", 7265, ""},
		{varz, "inmsgs", 0, `its JSON has no "inmsgs"; there are in_msgs, mem, out_msgs, server_id`},
		{varz, "server_id", 0, `its JSON has no number at "server_id"`},
		{varz, "mem.bytes", 0, `its JSON has nothing below "mem"`},
		{nsq, "topics.*.message_count", 12, ""},
		{nsq, "topics.0.channels.*.message_count", 4, ""},
		{nsq, "topics.1.channels.*.message_count", 0, ""},
		{nsq, "topics.2.message_count", 0, `its JSON has a list of 2 in "topics": "2" is neither an index in it nor *`},
		{nsq, "topics.*.depth", 0, `its JSON has no "depth" in "topics.*"; there are channels, message_count, topic_name`},
		{expvar, "http.requests", 11, ""},
		{expvar, "map.a.b.c.d", 8, ""},
		{expvar, "map.*.b.c.d", 8, ""},
		{expvar, "text", 18446744073709, ""},
		{expvar, "empty.x", 0, `there are none`},
		{`{"a":`, "a", 0, "its JSON is damaged"},
		{"<!DOCTYPE html><title>Sign in</title>", "a", 0, "an HTML page, not with metrics or JSON"},
		{"", "a", 0, "the response is empty"},
		{"what a day\n", "a", 0, "neither JSON nor Prometheus text"},
	} {
		got, err := value("", []byte(test.body), test.name)
		switch {
		case test.err == "" && (err != nil || got != test.want):
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s of %.20q: error %v, want %q", test.name, test.body, err, test.err)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: more than one line: %q", test.name, err)
		}
	}
}

func TestParseCounter(t *testing.T) {
	for spec, want := range map[string]string{
		"http://h:1/varz#in_msgs":                   "http://h:1/varz#in_msgs operation",
		"http://h:1/varz#in_msgs=message":           "http://h:1/varz#in_msgs message",
		`https://h/m#n{topic="a=b"}`:                `https://h/m#n{topic="a=b"} operation`,
		`https://h/m#n{topic="a"}=request`:          `https://h/m#n{topic="a"} request`,
		"http://me:secret@h/varz#in_msgs":           "http://me:xxxxx@h/varz#in_msgs operation",
		"http://h/stats?format=json#topics.*.count": "http://h/stats?format=json#topics.*.count operation",
		"http://h/varz":                             "",
		"http://h/varz#":                            "",
		"http://h/varz#a=":                          "",
		"h:8222/varz#a":                             "",
		"ftp://h/varz#a":                            "",
		`http://h/m#n{topic="a"`:                    "",
		"http://h/m#n{topic=a}":                     "",
	} {
		c, err := ParseCounter(spec)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s was taken for %v", spec, c)
		case want != "" && err != nil:
			t.Errorf("%s: %v", spec, err)
		case want != "" && c.String()+" "+c.Unit != want:
			t.Errorf("%s: %s %s, want %s", spec, c, c.Unit, want)
		}
	}
}

// serve serves a body that a test may change.
func serve(t *testing.T, body func() string) *Counter {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body()) }))
	t.Cleanup(s.Close)
	c, err := ParseCounter(s.URL + "/varz#n=message")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCollector(t *testing.T) {
	for name, test := range map[string]struct {
		last string
		want int64 // 0 for none
		warn string
	}{
		"counts":    {`{"n":150}`, 50, ""},
		"stands":    {`{"n":100}`, 0, "did not move within the window: does the load reach this target?"},
		"restarted": {`{"n":3}`, 0, "went back from 100 to 3 within the window: the target was restarted, or this is no counter; nothing is counted per message"},
		"vanished":  {`{}`, 0, `its JSON has no "n"; there are none; nothing is counted per message`},
	} {
		var body atomic.Value
		body.Store(`{"n":100}`)
		counter := serve(t, func() string { return body.Load().(string) })
		c, err := Open(t.Context(), counter)
		if err != nil {
			t.Fatal(err)
		}
		begin, err := c.Start()
		if err != nil {
			t.Fatal(err)
		}
		body.Store(test.last)
		if _, err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		got, err := c.Capture()
		if err != nil {
			t.Fatal(err)
		}
		if test.want > 0 && (got.Operations == nil || got.Operations.Count != test.want || got.Operations.Name != "message") {
			t.Errorf("%s: counted %+v", name, got.Operations)
		}
		if test.want == 0 && got.Operations != nil {
			t.Errorf("%s: counted %+v of nothing", name, got.Operations)
		}
		if w := strings.Join(got.Warnings, "|"); test.warn == "" && w != "" || !strings.Contains(w, test.warn) {
			t.Errorf("%s: warned %q, want %q", name, w, test.warn)
		}
		if m := got.Collector; m.StartMonoNS != begin || m.EndMonoNS < m.StartMonoNS || test.want > 0 && m.EndMonoNS == m.StartMonoNS {
			t.Errorf("%s: edges %d, %d", name, m.StartMonoNS, m.EndMonoNS)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestUnreadable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	l.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs-up":
			panic(http.ErrAbortHandler)
		case "/negative":
			fmt.Fprint(w, `{"n":-3}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	for address, want := range map[string]string{
		"http://" + free:    "nothing listens there",
		s.URL + "/nowhere":  "404 Not Found: is this the right path?",
		s.URL + "/hangs-up": "the server hung up",
		s.URL + "/negative": "its value -3 is no count",
	} {
		c, err := ParseCounter(address + "#n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

// FuzzValue: whatever a server sends and a user names, there is a number or an
// error of one line.
func FuzzValue(f *testing.F) {
	for _, body := range []string{metrics, varz, nsq, expvar, "<html>", "", "x 1\nx 2\n", "[[[1]]]"} {
		for _, name := range []string{"in_msgs", "topics.*.message_count", `messages_total{topic="a"}`, "*.*", "0.0.0", "seconds_count"} {
			f.Add("", body, name)
		}
	}
	f.Fuzz(func(t *testing.T, kind, body, name string) {
		_, err := value(kind, []byte(body), name)
		if err != nil && strings.Contains(err.Error(), "\n") && !strings.Contains(body+name, "\n") {
			t.Errorf("error of several lines: %q", err)
		}
	})
}

func FuzzParseCounter(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:8222/varz#in_msgs", "http://h/m#x{a=\"b\"}=message", "https://u:p@h#a=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		if c, err := ParseCounter(spec); err == nil && (c.name == "" || c.Unit == "") {
			t.Errorf("accepted %q as %+v", spec, c)
		}
	})
}
