// Instructions of compute capability 9.0a alone: products of a warpgroup, bulk copies, barriers in shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PACELINE_HOPPER 1
#else
#define PACELINE_HOPPER 0
#endif

namespace paceline::ops::cuda {

#if PACELINE_HOPPER

__device__ __forceinline__ uint32_t shared_address(const void* at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

__device__ __forceinline__ void barrier_init(uint64_t& barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(count) : "memory");
}

// Makes initialised barriers known to the copies.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void barrier_arrive(uint64_t& barrier) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(shared_address(&barrier)) : "memory");
}

__device__ __forceinline__ void barrier_expect(uint64_t& barrier, int bytes) {  // and arrive
  asm volatile("{.reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;}" ::"r"(shared_address(&barrier)),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t& barrier, int parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}

// Multiples of 16 bytes.
__device__ __forceinline__ void copy_bulk(void* to_shared, const void* from, int bytes, uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to_shared)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
}

// A matrix in shared memory without swizzle: cores of 8 rows by 16 bytes, so many bytes apart.
__device__ __forceinline__ uint64_t describe(uint32_t address, int along_k, int along_rows) {
  return static_cast<uint64_t>(address >> 4 & 0x3fffu) | static_cast<uint64_t>(along_k >> 4) << 16 |
         static_cast<uint64_t>(along_rows >> 4) << 32;
}

// Of every thread of a warpgroup, from here on.
template <int kCount>
__device__ __forceinline__ void limit_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

__device__ __forceinline__ void group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void group_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

// Keeps reads of the results behind group_wait.
template <int kTiles>
__device__ __forceinline__ void pin(float (&c)[kTiles][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) asm volatile("" : "+f"(c[t][0]), "+f"(c[t][1]), "+f"(c[t][2]), "+f"(c[t][3])::"memory");
}

#define PACELINE_TILE(how, t) how(c[t][0]), how(c[t][1]), how(c[t][2]), how(c[t][3])
#define PACELINE_TILES4(how, t) \
  PACELINE_TILE(how, t), PACELINE_TILE(how, t + 1), PACELINE_TILE(how, t + 2), PACELINE_TILE(how, t + 3)
#define PACELINE_A "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

#define PACELINE_MMA32(how, add)                                                                                               \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " add                                                                            \
               ", 0;\n"                                                                                                        \
               "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}," \
               "{%16,%17,%18,%19}, %20, p, 1, 1, 0;}"                                                                          \
               : PACELINE_TILES4(how, 0)                                                                                       \
               : PACELINE_A, "l"(b))
#define PACELINE_MMA64(how, add)                                                                                              \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " add                                                                           \
               ", 0;\n"                                                                                                       \
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"                                            \
               "{%32,%33,%34,%35}, %36, p, 1, 1, 0;}"                                                                         \
               : PACELINE_TILES4(how, 0), PACELINE_TILES4(how, 4)                                                             \
               : PACELINE_A, "l"(b))

// c = a b, or c += a b: 64 rows, 16 of K, 8 * kTiles columns. A lane holds of `a` and of `c` what mma.m16n8k16 gives it of its
// warp's 16 rows.
template <bool kAdd, int kTiles>
__device__ __forceinline__ void group_mma(float (&c)[kTiles][4], const uint32_t (&a)[4], uint64_t b) {
  static_assert(kTiles == 4 || kTiles == 8);
  if constexpr (kTiles == 4 && kAdd) {
    PACELINE_MMA32("+f", "1");
  } else if constexpr (kTiles == 4) {
    PACELINE_MMA32("=f", "0");
  } else if constexpr (kAdd) {
    PACELINE_MMA64("+f", "1");
  } else {
    PACELINE_MMA64("=f", "0");
  }
}

#undef PACELINE_MMA32
#undef PACELINE_MMA64
#undef PACELINE_TILE
#undef PACELINE_TILES4
#undef PACELINE_A

#endif

}  // namespace paceline::ops::cuda
