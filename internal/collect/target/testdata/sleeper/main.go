// Command sleeper prints the address and contents of a variable and of main.main,
// uses as many milliseconds of CPU time as its argument says, and waits for the
// end of its input.
package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"syscall"
	"time"
)

var words = [4]uint32{0xc0ffee, 1, 2, 3}

func main() {
	if len(os.Args) > 1 {
		ms, err := strconv.Atoi(os.Args[1])
		if err != nil {
			panic(err)
		}
		for cpuTime() < time.Duration(ms)*time.Millisecond {
			words[3]++
		}
	}
	fmt.Printf("%p %x %x\n", &words, words[:3], reflect.ValueOf(main).Pointer())
	io.Copy(io.Discard, os.Stdin)
}

func cpuTime() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
