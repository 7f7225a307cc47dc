//go:build go1.23

package main

import "iter"

// Beside everything else, goroutines hand over to each other without a park: none of
// it is a wait.
func init() {
	go func() {
		next, stop := iter.Pull(func(yield func(int) bool) {
			for i := 0; i < 100_000 && yield(i); i++ {
			}
		})
		defer stop()
		for ok := true; ok; {
			_, ok = next()
		}
	}()
}
