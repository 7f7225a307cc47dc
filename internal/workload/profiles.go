package workload

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/felixge/fgprof"
	"github.com/spf13/pflag"
)

// Profiling says which of its own profiles a workload's process keeps and serves.
type Profiling struct {
	Serve         bool // net/http/pprof and fgprof on a loopback port
	BlockRate     int  // runtime.SetBlockProfileRate, ns; 0 off
	MutexFraction int  // runtime.SetMutexProfileFraction; 0 off
}

// Flags by which a recorder has a workload serve the profiles it wants.
const (
	FlagServe         = "workload-pprof"
	FlagBlockRate     = "block-rate"
	FlagMutexFraction = "mutex-fraction"
)

// Flags adds a flag for each setting.
func (p *Profiling) Flags(f *pflag.FlagSet) {
	f.BoolVar(&p.Serve, FlagServe, p.Serve, "serve net/http/pprof on a loopback port")
	f.IntVar(&p.BlockRate, FlagBlockRate, p.BlockRate, "block profile rate in ns; 0 for off")
	f.IntVar(&p.MutexFraction, FlagMutexFraction, p.MutexFraction, "mutex profile fraction; 0 for off")
}

// A ProfileServer serves the process's own profiles; nil serves none.
type ProfileServer struct {
	server   *http.Server
	listener net.Listener
}

// Start sets the profiling rates and, if asked to, serves the profiles on a
// loopback port.
func (p Profiling) Start() (*ProfileServer, error) {
	runtime.SetBlockProfileRate(p.BlockRate)
	runtime.SetMutexProfileFraction(p.MutexFraction)
	if !p.Serve {
		return nil, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the profile server cannot listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/fgprof", fgprof.Handler())
	s := &ProfileServer{server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, listener: l}
	go func() { _ = s.server.Serve(l) }() // until Close
	return s, nil
}

// URL is the base URL of the profiles, "" without a server.
func (s *ProfileServer) URL() string {
	if s == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String() + "/debug/pprof"
}

// Close ends the server.
func (s *ProfileServer) Close() {
	if s != nil {
		s.server.Close()
	}
}
