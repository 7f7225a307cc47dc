// Command matrix waits, in every way that a goroutine can, for times that it
// knows. It is what contend's matrix of Go builds records: a module of its own,
// which every Go from 1.22 on can build.
//
// It reads commands from standard input:
//
//	run DIR       wait, with the block profile and the execution trace written to DIR
//	profile FILE  write a CPU profile in which the scheduler is hot, for a build with -pgo
//
// and answers each with a line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"sync"
	"time"
)

// A site is a function in which goroutines wait, and what they have waited there.
type site struct {
	Function string `json:"function"`
	Class    string `json:"class"`
	Waits    int64  `json:"waits"`
	DelayNS  int64  `json:"delay_ns"`
	// Own says that the time was taken by the waiter, until it ran again; else by
	// who woke it.
	Own bool `json:"own,omitempty"`
}

type answer struct {
	Sites []*site `json:"sites,omitempty"`
	Error string  `json:"error,omitempty"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var a answer
		var err error
		command, path, _ := strings.Cut(in.Text(), " ")
		switch command {
		case "run":
			a.Sites, err = run(path)
		case "profile":
			err = profile(path)
		case "hello":
		default:
			err = fmt.Errorf("unknown command %q", command)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

var epoch = time.Now()

func nanos() int64 { return int64(time.Since(epoch)) }

// run has all kinds of waits go on at once.
func run(dir string) ([]*site, error) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	traced, err := os.Create(filepath.Join(dir, "trace.out"))
	if err != nil {
		return nil, err
	}
	defer traced.Close()
	if err := trace.Start(traced); err != nil {
		return nil, err
	}
	var sites []*site
	var wg sync.WaitGroup
	for _, k := range kinds {
		s := &site{Function: "main." + k.name, Class: k.class, Own: k.own}
		sites = append(sites, s)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < rounds; i++ {
				waits, delay := k.round()
				s.Waits += waits
				s.DelayNS += delay
			}
		}()
	}
	wg.Wait()
	trace.Stop()
	blocked, err := os.Create(filepath.Join(dir, "block.pb.gz"))
	if err != nil {
		return nil, err
	}
	defer blocked.Close()
	return sites, pprof.Lookup("block").WriteTo(blocked, 0)
}

// profile keeps the scheduler and a mutex busy under the CPU profiler.
func profile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		ping := make(chan int)
		wg.Add(2)
		go func() {
			defer wg.Done()
			for i := 0; i < 10_000; i++ {
				ping <- i
				mu.Lock()
				mu.Unlock()
			}
			close(ping)
		}()
		go func() {
			defer wg.Done()
			for range ping {
				mu.Lock()
				runtime.Gosched()
				mu.Unlock()
			}
		}()
		wg.Wait()
	}
	return nil
}
