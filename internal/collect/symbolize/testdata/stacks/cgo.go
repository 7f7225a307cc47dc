//go:build withcgo

package main

// static int twice(int n) { return 2 * n; }
import "C"

func init() { twice = func(n int) int { return int(C.twice(C.int(n))) } }
