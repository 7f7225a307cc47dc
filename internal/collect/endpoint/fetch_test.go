package endpoint

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/felixge/fgprof"

	"contend/internal/recording"
)

// profileBytes is a valid gzipped profile, as sent.
func profileBytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := handmade(5).Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestErrorsNameTheirCause(t *testing.T) {
	good := profileBytes(t)
	send := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    error
		text    string
	}{
		{"404", http.NotFound, ErrNoProfile, "net/http/pprof"},
		{"HTML", send("text/html; charset=utf-8", "<!doctype html><h1>Sign in</h1>"), ErrNotProfile, "an HTML page"},
		{"JSON", send("application/json", `{"error":"no"}`), ErrNotProfile, "JSON"},
		{"text", send("text/plain", "hello\nthere"), ErrNotProfile, "plain text: hello"},
		{"empty", send("application/octet-stream", ""), ErrNotProfile, "empty response"},
		{"garbage", send("application/octet-stream", "\xff\xff\xff\xff"), ErrNotProfile, ""},
		{"cut gzip", send("application/octet-stream", string(good[:len(good)/2])), ErrTruncated, "ends early"},
		{"cut body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4096")
			_, _ = w.Write(good)
		}, ErrTruncated, "in the middle"},
		{"oversize", send("application/octet-stream", strings.Repeat("x", 5000)), ErrTooLarge, "4096 bytes"},
		{"endless", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1024))
			}
		}, ErrTooLarge, "4096 bytes"},
		{"gzip bomb", send("application/octet-stream", bomb(t)), ErrTooLarge, "uncompressed"},
		{"500", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "cpu profiling already in use\nmore", http.StatusInternalServerError)
		}, ErrStatus, "500 Internal Server Error: cpu profiling already in use"},
		{"old write timeout", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "profile duration exceeds server's WriteTimeout", http.StatusBadRequest)
		}, ErrWriteTimeout, "WriteTimeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.handler)
			defer s.Close()
			_, err := Open(t.Context(), s.URL, []string{recording.Mutex}, Options{MaxBody: 4096, MaxProfile: 1 << 16})
			checkError(t, err, tt.want, tt.text)
		})
	}
}

func checkError(t *testing.T, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("message %q: want one line with %q", err, text)
	}
}

// bomb is a small gzip stream of one uncompressed MiB.
func bomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	if _, err := zw.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, err = Open(t.Context(), "http://user:secret@"+addr, []string{recording.Block}, Options{})
	checkError(t, err, ErrRefused, "nothing listens")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("message %q tells the password", err)
	}
	if !IsUnavailable(err) {
		t.Error("a refused connection is not counted as unavailable")
	}
}

func TestWriteTimeoutOfARealServer(t *testing.T) {
	s := httptest.NewUnstartedServer(fgprof.Handler())
	s.Config.WriteTimeout = 100 * time.Millisecond
	s.Start()
	defer s.Close()
	c, err := Open(t.Context(), s.URL, []string{recording.Fgprof}, Options{Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = c.Stop()
	checkError(t, err, ErrWriteTimeout, "raise http.Server.WriteTimeout")
	out, err := c.Capture()
	if err != nil || len(out.Profiles) != 0 || len(out.Warnings) != 1 {
		t.Errorf("capture after a failed stop: %v profiles, warnings %q, error %v", len(out.Profiles), out.Warnings, err)
	}
}

func TestSilentServerIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	_, err := Open(t.Context(), s.URL, []string{recording.Mutex}, Options{Timeout: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestAddresses(t *testing.T) {
	t.Setenv(PasswordEnv, "s3cret")
	for _, tt := range []struct{ in, mutex, fgprof, socket, shown string }{
		{"http://h:1/debug/pprof", "http://h:1/debug/pprof/mutex", "http://h:1/debug/fgprof", "", "http://h:1/debug/pprof"},
		{"http://h:1/debug/pprof/?x=1", "http://h:1/debug/pprof/mutex", "http://h:1/debug/fgprof", "", "http://h:1/debug/pprof"},
		{"http://h:1", "http://h:1/debug/pprof/mutex", "http://h:1/debug/fgprof", "", "http://h:1/debug/pprof"},
		{"https://h/x/debug/pprof", "https://h/x/debug/pprof/mutex", "https://h/x/debug/fgprof", "", "https://h/x/debug/pprof"},
		{"http://me@h:1", "http://me:s3cret@h:1/debug/pprof/mutex", "http://me:s3cret@h:1/debug/fgprof", "", "http://me:xxxxx@h:1/debug/pprof"},
		{"http://me:mine@h:1", "http://me:mine@h:1/debug/pprof/mutex", "http://me:mine@h:1/debug/fgprof", "", "http://me:xxxxx@h:1/debug/pprof"},
		{"unix:///run/b.sock", "http://localhost/debug/pprof/mutex", "http://localhost/debug/fgprof", "/run/b.sock", "unix:///run/b.sock:/debug/pprof"},
		{"unix:///run/b.sock:/x/pprof/", "http://localhost/x/pprof/mutex", "http://localhost/x/fgprof", "/run/b.sock", "unix:///run/b.sock:/x/pprof"},
	} {
		a, err := parseAddress(tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if got := profileURL(a.url, recording.Mutex).String(); got != tt.mutex {
			t.Errorf("%s: mutex at %s, want %s", tt.in, got, tt.mutex)
		}
		if got := profileURL(a.url, recording.Fgprof).String(); got != tt.fgprof {
			t.Errorf("%s: fgprof at %s, want %s", tt.in, got, tt.fgprof)
		}
		if got := a.shown(a.url); got != tt.shown || a.socket != tt.socket {
			t.Errorf("%s: shown as %s with the socket %q", tt.in, got, a.socket)
		}
	}
	for _, bad := range []string{"", "host:1", "ftp://h/", "/debug/pprof", "unix://", "unix://host/x"} {
		if _, err := parseAddress(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(profileBytes(f), "application/octet-stream")
	f.Add([]byte("<html>"), "text/html")
	f.Add([]byte{0x1f, 0x8b, 8}, "")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		p, err := parse(body, contentType, 1<<16)
		if (p == nil) == (err == nil) {
			t.Fatalf("profile %v and error %v", p, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("message of several lines: %q", err)
		}
	})
}

func FuzzParseFraction(f *testing.F) {
	f.Add("--- mutex:\ncycles/second=2000000000\nsampling period=5\n")
	f.Fuzz(func(t *testing.T, head string) {
		if n := parseFraction(head); n < -1 {
			t.Errorf("fraction %d", n)
		}
	})
}
