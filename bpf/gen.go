// Package bpf holds the programs that run in the kernel: C sources, and beside
// them the objects and the Go code that bpf2go made of them, committed so that
// building contend needs only Go.
package bpf

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -type edge -type counter -type stack_flags -type release -type absence_probe Gowait gowait.bpf.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror
