package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"contend/internal/analyze"
	"contend/internal/analyze/render"
	"contend/internal/input"
)

type viewPageOptions struct {
	profile string
	port    int
	browser bool
}

func newView() *cobra.Command {
	var o viewPageOptions
	c := &cobra.Command{
		Use:   "view RECORDING [BASELINE]",
		Short: "Serve pprof's own web page over a recording",
		Long: "View serves pprof's web interface over one profile of a recording, on this host's loopback\n" +
			"address only, until Ctrl-C. With a BASELINE it shows the difference, as pprof's -diff_base does.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usagef("%s takes a recording and perhaps a baseline: %d given", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.port < 0 || o.port > 65535 {
				return usagef("--port %d: from 0 to 65535", o.port)
			}
			return runView(cmd.Context(), o, args, cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.profile, "profile", "", "waits, holders, offcpu, mutex, block, fgprof or cpu (default: the first of waits that every recording has)")
	f.IntVar(&o.port, "port", 0, "port on the loopback address; 0 takes a free one")
	f.BoolVar(&o.browser, "browser", false, "open the page in a browser")
	return c
}

func runView(ctx context.Context, o viewPageOptions, paths []string, stderr io.Writer) error {
	profiles, err := viewedProfiles(o.profile, paths)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(o.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	args := []string{"-symbolize=none", "-http=" + listener.Addr().String()}
	if !o.browser {
		args = append(args, "-no_browser")
	}
	if len(paths) == 2 {
		args = append(args, "-diff_base="+paths[1])
	}
	return driver.PProf(&driver.Options{
		Flagset: &pprofFlags{FlagSet: flag.NewFlagSet("view", flag.ContinueOnError), args: append(args, "--", paths[0])},
		Fetch:   profiles,
		UI:      pprofUI{stderr: stderr, browser: o.browser},
		HTTPServer: func(a *driver.HTTPServerArgs) error {
			fmt.Fprintf(stderr, "contend: %s at http://%s/ (Ctrl-C ends)\n", render.Clean(strings.Join(paths, " against ")), listener.Addr())
			return serve(ctx, listener, a.Handlers)
		},
	})
}

// viewed holds the profiles that pprof asks for by name.
type viewed map[string]*profile.Profile

// Fetch hands pprof a profile. The empty source says that it came from no URL,
// so that pprof keeps no copy of it.
func (v viewed) Fetch(name string, _, _ time.Duration) (*profile.Profile, string, error) {
	p, ok := v[name]
	if !ok {
		return nil, "", fmt.Errorf("%s: not among the recordings to view", name)
	}
	return p.Copy(), "", nil
}

func viewedProfiles(name string, paths []string) (viewed, error) {
	sides, _, err := input.Options{Profile: name}.Sides(paths...)
	if err != nil {
		return nil, err
	}
	name, err = analyze.ChooseProfile(sides, name)
	if err != nil {
		return nil, err
	}
	all := viewed{}
	for i, side := range sides {
		p, err := merged(name, side)
		if err != nil {
			return nil, err
		}
		for _, st := range p.SampleType {
			switch st.Type {
			case "delay", "sleeping", "time": // time, rather than whatever comes last
				p.DefaultSampleType = st.Type
			}
		}
		all[paths[i]] = p
	}
	return all, nil
}

// serve answers until the context ends, then lets requests finish for a moment.
func serve(ctx context.Context, l net.Listener, handlers map[string]http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("/", http.RedirectHandler("/ui/", http.StatusTemporaryRedirect))
	mux.Handle("/ui/", http.StripPrefix("/ui", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := handlers[r.URL.Path]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})))
	server := &http.Server{Handler: loopbackOnly(mux), ReadHeaderTimeout: 10 * time.Second}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		short, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		closed <- errors.Join(server.Shutdown(short), server.Close())
	})
	err := server.Serve(l)
	if stop() { // not Ctrl-C: the server itself gave up
		return err
	}
	if err := <-closed; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// loopbackOnly refuses requests by any other name than the loopback address's,
// so that a page from elsewhere cannot read the recording by a name of its own
// that resolves to this host.
func loopbackOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "contend view answers on the loopback address only", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// pprofFlags gives pprof a command line of our own.
type pprofFlags struct {
	*flag.FlagSet
	args []string
}

func (f *pprofFlags) StringList(name, def, usage string) *[]*string {
	return &[]*string{f.String(name, def, usage)}
}
func (f *pprofFlags) ExtraUsage() string   { return "" }
func (f *pprofFlags) AddExtraUsage(string) {}
func (f *pprofFlags) Parse(func()) []string {
	f.SetOutput(io.Discard)
	if err := f.FlagSet.Parse(f.args); err != nil {
		return nil // pprof then says that no source was given
	}
	return f.Args()
}

// pprofUI passes pprof's errors on, and none of its chatter.
type pprofUI struct {
	stderr  io.Writer
	browser bool
}

func (pprofUI) ReadLine(string) (string, error) { return "", io.EOF }
func (pprofUI) Print(...any)                    {}
func (u pprofUI) PrintErr(args ...any) {
	fmt.Fprintln(u.stderr, "contend: "+strings.TrimSpace(fmt.Sprint(args...)))
}
func (pprofUI) IsTerminal() bool                    { return false }
func (u pprofUI) WantBrowser() bool                 { return u.browser }
func (pprofUI) SetAutoComplete(func(string) string) {}
