// Tensor-core fragments: e4m3 to bfloat16 in registers, and the copies and sums that the kernels share.
#pragma once

#include "ops/cuda/linear/layout.h"
#include "ops/cuda/runtime.h"

namespace paceline::ops::cuda {

// Four e4m3 codes (layout.h) to two pairs of bfloat16, exact for all numbers: the exponent is re-biased by a multiplication with
// 2^120, which puts subnormals right, too. NaN codes are refused when a weight is packed.
__device__ __forceinline__ void widen_fp8(uint32_t word, uint32_t& low, uint32_t& high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t a = word & 0x87f087f0u;
  const uint32_t b = ((word << 4) & 0x80f080f0u) | ((word >> 4) & 0x07000700u);
  const __nv_bfloat162 bias = __halves2bfloat162(__ushort_as_bfloat16(0x7b80), __ushort_as_bfloat16(0x7b80));
  const __nv_bfloat162 x = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&a), bias);
  const __nv_bfloat162 y = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&b), bias);
  low = *reinterpret_cast<const uint32_t*>(&x);
  high = *reinterpret_cast<const uint32_t*>(&y);
#endif
}

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// The A fragments of one chunk of 32 columns: two k16 steps.
struct Chunk {
  uint32_t first[4];
  uint32_t second[4];
};

template <bool kFp8>
__device__ __forceinline__ Chunk load_chunk(const uint8_t* block, int chunk, int lane) {
  Chunk out;
  if constexpr (kFp8) {
    const uint4 q = *reinterpret_cast<const uint4*>(block + chunk * 512 + lane * 16);
    widen_fp8(q.x, out.first[0], out.first[2]);
    widen_fp8(q.z, out.first[1], out.first[3]);
    widen_fp8(q.y, out.second[0], out.second[2]);
    widen_fp8(q.w, out.second[1], out.second[3]);
  } else {
    const uint4 upper = *reinterpret_cast<const uint4*>(block + chunk * 1024 + lane * 16);
    const uint4 lower = *reinterpret_cast<const uint4*>(block + chunk * 1024 + 512 + lane * 16);
    out.first[0] = upper.x, out.first[1] = lower.x, out.first[2] = upper.y, out.first[3] = lower.y;
    out.second[0] = upper.z, out.second[1] = lower.z, out.second[2] = upper.w, out.second[3] = lower.w;
  }
  return out;
}

struct RowScales {  // of a lane's two rows: lane / 4 and lane / 4 + 8
  float upper, lower;
};

__device__ __forceinline__ RowScales pick_scales(const float* pair, int boundary, int lane) {
  const float2 both = *reinterpret_cast<const float2*>(pair);
  return {lane / 4 < boundary ? both.x : both.y, lane / 4 + 8 < boundary ? both.x : both.y};
}

// acc = fma(scale, c + d, acc) where c and d are the block's two chains.
__device__ __forceinline__ void add_block(float (&acc)[4], const float (&c)[4], const float (&d)[4], RowScales scale) {
  acc[0] = fmaf(scale.upper, c[0] + d[0], acc[0]);
  acc[1] = fmaf(scale.upper, c[1] + d[1], acc[1]);
  acc[2] = fmaf(scale.lower, c[2] + d[2], acc[2]);
  acc[3] = fmaf(scale.lower, c[3] + d[3], acc[3]);
}

__device__ __forceinline__ void copy_async(void* to_shared, const void* from,
                                           bool real = true) {  // 16 bytes, zeros unless `real`
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to_shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(real ? 16 : 0) : "memory");
#endif
}

__device__ __forceinline__ void copy_scales_async(void* to_shared,
                                                  const float* from) {  // 8 bytes: the scales of a group and block
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to_shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(address), "l"(from) : "memory");
#endif
}

__device__ __forceinline__ void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int kPending>
__device__ __forceinline__ void wait_copies() {  // until at most kPending groups are under way
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace paceline::ops::cuda
