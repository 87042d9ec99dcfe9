// What this processor can do, and how much of it this process may use.
#pragma once

namespace paceline {

struct CpuFeatures {         // a path is there only when the processor AND the operating system have all of it
  bool avx2 = false;         // AVX2, FMA, F16C
  bool avx512 = false;       // AVX-512 F, BW, DQ, VL (with all of avx2)
  bool avx512_bf16 = false;  // AVX-512 BF16 and VBMI (with all of avx512)
  bool amx = false;          // AMX tiles and AMX BF16, granted by the kernel (with all of avx512_bf16)
};

// Detected once. Asks the kernel for the AMX tile state, which holds for every thread of the process from then on.
const CpuFeatures& cpu_features();

// Processors this process may keep busy: the smallest of its affinity mask, its physical cores and its cgroup's quota; at
// least 1.
int available_cpus();

// Tells the core that this thread is waiting in a loop.
inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace paceline
