// Command convoy keeps eight goroutines queueing for one mutex that each holds
// for a millisecond, until it is killed.
package main

import (
	"fmt"
	"sync"
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
	fmt.Println("ready")
	select {}
}
