#include "textflag.h"

// func Get() uintptr
TEXT ·Get(SB), NOSPLIT, $0-8
	MOVQ BP, ret+0(FP)
	RET
