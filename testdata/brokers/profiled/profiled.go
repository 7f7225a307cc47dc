// Package profiled is what the brokers of this module have in common: their own
// profiles on a loopback endpoint, to hold contend's figures to, and an end by
// signal.
package profiled

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

var (
	address = flag.String("pprof", "", "serve net/http/pprof there; nothing by default")
	rate    = flag.Int("block-rate", 0, "of the block profile: 1 takes every event, 0 none")
)

// Run serves the profiles, says that the broker is ready, and returns at SIGTERM
// or SIGINT. The flags must have been parsed.
func Run() {
	runtime.SetBlockProfileRate(*rate)
	if *address != "" {
		l, err := net.Listen("tcp", *address)
		if err != nil {
			log.Fatal(err)
		}
		go func() { log.Fatal(http.Serve(l, nil)) }()
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	fmt.Fprintln(os.Stderr, "Server is ready")
	<-told
}
