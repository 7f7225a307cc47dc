package endpoint

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"contend/internal/recording"
)

// handler is net/http/pprof itself.
func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	return mux
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(handler())
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o644); err != nil {
		t.Fatal(err)
	}
	names := []string{recording.Mutex}
	c, err := Open(t.Context(), s.URL, names, Options{CAFile: ca})
	if err != nil {
		t.Fatal(err)
	}
	out := window(t, c, func() {})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if url := out.Collector.Settings["url"]; !strings.HasPrefix(url, "https://") {
		t.Errorf("recorded from %s", url)
	}
	_, err = Open(t.Context(), s.URL, names, Options{})
	checkError(t, err, ErrTLS, "--pprof-ca")
	_, err = Open(t.Context(), strings.Replace(s.URL, "127.0.0.1", "localhost", 1), names, Options{CAFile: ca})
	checkError(t, err, ErrTLS, "its certificate is not for localhost")
	_, err = Open(t.Context(), strings.Replace(s.URL, "https", "http", 1), names, Options{})
	checkError(t, err, ErrStatus, "HTTP request to an HTTPS server")
	plain := httptest.NewServer(handler())
	defer plain.Close()
	_, err = Open(t.Context(), strings.Replace(plain.URL, "http", "https", 1), names, Options{})
	checkError(t, err, ErrTLS, "use http://")

	for file, text := range map[string]string{filepath.Join(t.TempDir(), "none"): "no such file", "/dev/null": "has none in PEM"} {
		if _, err := Open(t.Context(), s.URL, names, Options{CAFile: file}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pprof.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler()}}
	s.Start()
	defer s.Close()
	c, err := Open(t.Context(), "unix://"+path, []string{recording.Mutex, recording.Block}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out := window(t, c, func() {})
	if url := out.Collector.Settings["url"]; url != "unix://"+path+":/debug/pprof" {
		t.Errorf("recorded from %s", url)
	}
	_, err = Open(t.Context(), "unix://"+path+":/elsewhere", []string{recording.Mutex}, Options{})
	checkError(t, err, ErrNoProfile, "unix://"+path+":/elsewhere/mutex")
	_, err = Open(t.Context(), "unix://"+path+"x", []string{recording.Mutex}, Options{})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a socket that is not there: %v", err)
	}
}

func TestBasicAuth(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "mine" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler().ServeHTTP(w, r)
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	c, err := Open(t.Context(), "http://me:mine@"+host, []string{recording.Mutex}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if url := window(t, c, func() {}).Collector.Settings["url"]; strings.Contains(url, "mine") {
		t.Errorf("the manifest tells the password: %s", url)
	}
	_, err = Open(t.Context(), s.URL, []string{recording.Mutex}, Options{})
	checkError(t, err, ErrStatus, "asks for a user and a password")
	t.Setenv(PasswordEnv, "mine")
	again, err := Open(t.Context(), "http://me@"+host, []string{recording.Mutex}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// A target with too many goroutines is not sampled by fgprof.
func TestFgprofDeclines(t *testing.T) {
	for total, declined := range map[string]bool{"50000": true, "10000": false, "": false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("goroutine profile: total " + total + "\n1 @ 0x1\n"))
		}))
		c, err := Open(t.Context(), s.URL, []string{recording.Fgprof}, Options{})
		if declined {
			checkError(t, err, ErrTooMany, "50000 goroutines")
		} else if err != nil {
			t.Errorf("%s goroutines: %v", total, err)
		} else {
			c.Close()
		}
		s.Close()
	}
}

func TestMutexMeaning(t *testing.T) {
	for version, want := range map[string]string{
		"":                          "if the target was built with Go 1.22 or later",
		"go1.21.13":                 "of one waiter",
		"go1.22.0":                  "_LostContendedRuntimeLock",
		"go1.24.13":                 "_LostContendedRuntimeLock",
		"go1.26.8":                  "likewise",
		"go1.27-devel_0123 Mon Nov": "",
	} {
		if got := mutexMeaning(version); !strings.Contains(got, want) {
			t.Errorf("%q: %s", version, got)
		}
	}
}
