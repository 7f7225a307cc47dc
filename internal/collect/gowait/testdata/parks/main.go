// Command parks waits in every way that a goroutine can, as it is told, and keeps
// its own ledger of it. It reads commands from standard input, one a line, and
// answers each with a line of JSON once it is done.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// ledger is what the target knows of the waits of one kind.
type ledger struct {
	Waits   int64 `json:"waits"`
	DelayNS int64 `json:"delay_ns"` // from the waiter's beginning to what ended its wait
	BlockNS int64 `json:"block_ns"` // the block profile's for the waiter
}

var epoch = time.Now()

func nanos() int64 { return int64(time.Since(epoch)) }

func main() {
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	var s stuck
	for in.Scan() {
		var name string
		var rounds int
		var hold time.Duration
		fields := strings.Fields(in.Text())
		name = fields[0]
		if len(fields) == 3 {
			fmt.Sscan(fields[1], &rounds)
			hold, _ = time.ParseDuration(fields[2])
		}
		var answer any = ledger{}
		switch name {
		case "kinds":
			answer = everyKind(rounds, hold)
		case "collect":
			answer = collect(rounds)
		case "pull":
			answer = pull(rounds, hold)
		case "rally":
			answer = rally(rounds)
		case "stick":
			s.begin(rounds)
		case "unstick":
			s.end()
		case "stats":
		default:
			fmt.Fprintln(os.Stderr, "unknown command", name)
			os.Exit(2)
		}
		if err := out.Encode(answer); err != nil {
			os.Exit(1)
		}
	}
}

// everyKind waits a number of times in each way, each time for as long as hold.
func everyKind(rounds int, hold time.Duration) map[string]ledger {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	before := blocked()
	t0, c0 := nanos(), cputicks()
	all := make(map[string]ledger)
	for name, k := range kinds {
		all[name] = waitFor(k, rounds, hold)
	}
	perTick := float64(nanos()-t0) / float64(cputicks()-c0)
	for name, cycles := range blocked() {
		if l, ok := all[name]; ok {
			l.BlockNS = int64(float64(cycles-before[name]) * perTick)
			all[name] = l
		}
	}
	return all
}

// waitFor runs one kind. The waiter tells when it begins; a moment later it waits,
// and the waker lets it until hold has passed.
func waitFor(k kind, rounds int, hold time.Duration) ledger {
	var led ledger
	for range rounds {
		wait, wake := k()
		began, done := make(chan int64, 1), make(chan int64, 1)
		go func() {
			began <- nanos()
			wait(hold)
			done <- nanos()
		}()
		from := <-began
		if wake == nil { // it wakes by itself
			led.DelayNS += <-done - from
		} else {
			time.Sleep(hold)
			led.DelayNS += nanos() - from
			wake()
			<-done
		}
		led.Waits++
	}
	return led
}
