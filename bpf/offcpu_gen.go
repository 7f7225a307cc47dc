package bpf

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -type off_counter -type off_state -type off_edge -type off_flags -type open_wait Offcpu offcpu.bpf.c -- -O2 -mcpu=v3 -Wall -Wextra -Werror
