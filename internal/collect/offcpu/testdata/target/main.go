// Command target keeps its threads off the CPU for known times. It prints
// "ready", waits for a line on its standard input, runs the scenarios named by
// its arguments, prints what its own clocks measured of each as JSON, and waits
// for the end of its input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Truth is what a scenario's own thread and the kernel say of it.
type Truth struct {
	Count int           // times it gave the CPU up, by the kernel's account
	Off   time.Duration // time off the CPU
}

const (
	rounds = 20
	pause  = 10 * time.Millisecond
)

func main() {
	scenarios := map[string]func() Truth{
		"sleep": sleepInKernel, "read": readPipe, "channel": lockedReceive, "spin": spinPair, "stuck": stuckRead, "busy": busySwitching,
	}
	runtime.GOMAXPROCS(16) // a thread back from a system call seldom waits for a P
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	if !in.Scan() {
		return
	}
	truths := make(map[string]Truth)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, name := range os.Args[1:] {
		wg.Go(func() {
			t := scenarios[name]()
			mu.Lock()
			truths[name] = t
			mu.Unlock()
		})
	}
	wg.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(truths); err != nil {
		log.Fatal(err)
	}
	for in.Scan() {
	}
}

// onThread runs f on a thread of its own.
func onThread(f func() Truth) Truth {
	done := make(chan Truth)
	go func() {
		runtime.LockOSThread() // kept: the thread ends with the goroutine
		before := voluntarySwitches()
		t := f()
		t.Count = voluntarySwitches() - before
		done <- t
	}()
	return <-done
}

//go:noinline
func sleepInKernel() Truth {
	return onThread(func() Truth {
		var off time.Duration
		for range rounds {
			ts := syscall.NsecToTimespec(int64(pause))
			began := time.Now()
			if err := syscall.Nanosleep(&ts, nil); err != nil {
				log.Fatal(err)
			}
			off += time.Since(began)
		}
		return Truth{Off: off}
	})
}

func pipe() (r, w int) {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil { // blocking, unknown to the netpoller
		log.Fatal(err)
	}
	return fds[0], fds[1]
}

//go:noinline
func readPipe() Truth {
	r, w := pipe()
	go func() {
		for range rounds {
			time.Sleep(pause)
			if _, err := syscall.Write(w, []byte{1}); err != nil {
				log.Fatal(err)
			}
		}
	}()
	return onThread(func() Truth {
		var off time.Duration
		var b [1]byte
		for range rounds {
			began := time.Now()
			if _, err := syscall.Read(r, b[:]); err != nil {
				log.Fatal(err)
			}
			off += time.Since(began)
		}
		return Truth{Off: off}
	})
}

// stuckRead blocks in a read that ends with the process.
//
//go:noinline
func stuckRead() Truth {
	r, _ := pipe()
	go onThread(func() Truth {
		var b [1]byte
		_, _ = syscall.Read(r, b[:])
		return Truth{}
	})
	time.Sleep(pause)
	return Truth{}
}

// busySwitching makes threads hand each other a byte until the process ends.
//
//go:noinline
func busySwitching() Truth {
	r1, w1 := pipe()
	r2, w2 := pipe()
	pass := func(r, w int) {
		onThread(func() Truth {
			b := []byte{1}
			for {
				if _, err := syscall.Write(w, b); err != nil {
					log.Fatal(err)
				}
				if _, err := syscall.Read(r, b); err != nil {
					log.Fatal(err)
				}
			}
		})
	}
	go pass(r1, w2)
	go pass(r2, w1)
	return Truth{}
}

// lockedReceive parks a goroutine that is locked to its thread.
//
//go:noinline
func lockedReceive() Truth {
	c := make(chan int)
	go func() {
		for i := range rounds {
			time.Sleep(pause)
			c <- i
		}
	}()
	return onThread(func() Truth {
		var off time.Duration
		for range rounds {
			began := time.Now()
			<-c
			off += time.Since(began)
		}
		return Truth{Off: off}
	})
}

// spinPair makes two threads compete for one CPU.
//
//go:noinline
func spinPair() Truth {
	var total Truth
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			t := onThread(spin)
			mu.Lock()
			total.Count += t.Count
			total.Off += t.Off
			mu.Unlock()
		})
	}
	wg.Wait()
	return total
}

//go:noinline
func spin() Truth {
	var cpu unix.CPUSet
	cpu.Set(0)
	if err := unix.SchedSetaffinity(0, &cpu); err != nil {
		log.Fatal(err)
	}
	stat, err := os.Open("/proc/thread-self/schedstat")
	if err != nil {
		log.Fatal(err)
	}
	before := pread(int(stat.Fd()))
	burn()
	after := pread(int(stat.Fd()))
	return Truth{Off: runDelay(after) - runDelay(before)}
}

var sink int

// burn makes no call and, with GODEBUG=asyncpreemptoff=1, is never preempted by
// the runtime, which would put its own frames in front.
//
//go:noinline
func burn() {
	n := 0
	for i := range 300_000_000 {
		n ^= i
	}
	sink = n
}

func pread(fd int) string {
	var b [128]byte
	n, err := syscall.Pread(fd, b[:], 0)
	if err != nil {
		log.Fatal(err)
	}
	return string(b[:n])
}

// runDelay is the kernel's own account of a thread's time on run queues. (Wall
// less CPU time would contain what the hypervisor stole.)
func runDelay(schedstat string) (delay time.Duration) {
	var used int64
	if _, err := fmt.Sscan(schedstat, &used, &delay); err != nil {
		log.Fatal(err)
	}
	return delay
}

func voluntarySwitches() int {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		log.Fatal(err)
	}
	return int(u.Nvcsw)
}
