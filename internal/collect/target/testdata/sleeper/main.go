// Command sleeper prints the address and contents of a variable and of main.main,
// burns CPU time for as many milliseconds as its argument says, and waits for the
// end of its input.
package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"time"
)

var words = [4]uint32{0xc0ffee, 1, 2, 3}

func main() {
	if len(os.Args) > 1 {
		ms, err := strconv.Atoi(os.Args[1])
		if err != nil {
			panic(err)
		}
		for start := time.Now(); time.Since(start) < time.Duration(ms)*time.Millisecond; {
			words[3]++
		}
	}
	fmt.Printf("%p %x %x\n", &words, words[:3], reflect.ValueOf(main).Pointer())
	io.Copy(io.Discard, os.Stdin)
}
