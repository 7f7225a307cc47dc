package bpf

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -type counter -type reason_kind -type park_edge Goparks goparks.bpf.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror
