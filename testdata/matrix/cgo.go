//go:build withcgo

package main

// #include <time.h>
// static void doze(void) { struct timespec t = {0, 1000000}; nanosleep(&t, 0); }
import "C"

// Beside everything else, a thread is in C now and again.
func init() {
	go func() {
		for i := 0; i < 2000; i++ {
			C.doze()
		}
	}()
}
