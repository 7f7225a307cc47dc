package ledger

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/felixge/fgprof"
)

// A profileServer serves the process's own profiles; nil serves none.
type profileServer struct {
	server   *http.Server
	listener net.Listener
}

// startProfiles sets the profiling rates and, if asked to, serves the profiles
// on a loopback port.
func startProfiles(o Options) (*profileServer, error) {
	runtime.SetBlockProfileRate(o.BlockProfileRate)
	runtime.SetMutexProfileFraction(o.MutexFraction)
	if !o.Pprof {
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
	s := &profileServer{server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, listener: l}
	go func() { _ = s.server.Serve(l) }() // until close
	return s, nil
}

// url is the base URL of the profiles, "" without a server.
func (s *profileServer) url() string {
	if s == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String() + "/debug/pprof"
}

func (s *profileServer) close() {
	if s != nil {
		s.server.Close()
	}
}
