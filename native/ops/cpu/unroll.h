// Loops over a few accumulators must be unrolled before the compiler decides what lives in registers: otherwise it keeps the
// accumulators on the stack and every sum passes through memory.
#pragma once

#if defined(__clang__)
#define PACELINE_UNROLL _Pragma("unroll")
#else
#define PACELINE_UNROLL _Pragma("GCC unroll 16")
#endif
