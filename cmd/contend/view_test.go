package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// contend view serves pprof's own pages over one side and over both, to the
// loopback address only, and ends on Ctrl-C with exit code 0.
func TestView(t *testing.T) {
	t.Chdir(pair)
	for name, c := range map[string]struct {
		args []string
		want string // in the flame graph's page
	}{
		"one side":   {[]string{"view", "baseline"}, "handover.(*Queue"},
		"two sides":  {[]string{"view", "batched", "baseline"}, "handover.(*Queue"},
		"named":      {[]string{"view", "baseline", "--profile", "offcpu"}, "sleeping"},
		"pprof file": {[]string{"view", "baseline/holders.pb.gz"}, "unlockSlow"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			r, w := io.Pipe()
			code := make(chan int, 1)
			go func() {
				code <- run(ctx, c.args, strings.NewReader(""), io.Discard, w)
				w.Close()
			}()
			lines := bufio.NewScanner(r)
			if !lines.Scan() {
				t.Fatalf("it ended with %d before it served", <-code)
			}
			url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(lines.Text())
			if url == "" {
				t.Fatalf("no address in %q", lines.Text())
			}
			go io.Copy(io.Discard, r)
			body, status := fetch(t, url, "")
			if status != http.StatusOK || !strings.Contains(body, c.want) {
				t.Errorf("%s: status %d, has %q: %v", url, status, c.want, strings.Contains(body, c.want))
			}
			if top, status := fetch(t, url+"ui/top?si=contentions", ""); name != "named" && (status != http.StatusOK || !strings.Contains(top, "Cum")) {
				t.Errorf("top: status %d", status)
			}
			if _, status := fetch(t, url, "evil.example"); status != http.StatusForbidden {
				t.Errorf("a request by another name got status %d", status)
			}
			if _, status := fetch(t, url+"ui/nosuch", ""); status != http.StatusNotFound {
				t.Errorf("an unknown page got status %d", status)
			}
			interrupt()
			select {
			case got := <-code:
				if got != exitOK {
					t.Errorf("exit code %d", got)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it did not end")
			}
		})
	}
	for _, c := range []struct {
		code int
		args []string
	}{{exitUsage, []string{"view"}}, {exitUsage, []string{"view", "baseline", "--profile", "mutex"}}, {exitUsage, []string{"view", "baseline", "--port", "99999"}}, {exitError, []string{"view", "absent"}}} {
		if code, _, stderr := invoke(t, c.args...); code != c.code || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q", c.args, code, stderr)
		}
	}
}

func fetch(t *testing.T, url, host string) (body string, status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), resp.StatusCode
}
