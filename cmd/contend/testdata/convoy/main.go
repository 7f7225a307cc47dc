// Command convoy keeps eight goroutines queueing for one mutex that each holds
// for a millisecond, until it is killed. On SIGUSR1 it replaces itself by sleep.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

type convoy struct{ mu sync.Mutex }

func (c *convoy) cross() {
	c.mu.Lock()
	time.Sleep(time.Millisecond)
	c.mu.Unlock()
}

func main() {
	var c convoy
	for range 8 {
		go func() {
			for {
				c.cross()
			}
		}()
	}
	replace := make(chan os.Signal, 1)
	signal.Notify(replace, syscall.SIGUSR1)
	fmt.Println("ready")
	<-replace
	panic(syscall.Exec("/bin/sleep", []string{"sleep", "60"}, nil))
}
