// What every kernel file of this backend shares: error checks, launches with programmatic dependent launch, device helpers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace paceline::ops::cuda {

// Throws OutOfMemoryError or Error with the call's name and CUDA's own words.
void check(cudaError_t status, const char* what);

struct Launch {  // where kernels go
  cudaStream_t stream;
  bool dependent;    // programmatic dependent launch: compute capability 9.0 and later
  int shared_optin;  // bytes of shared memory a block may ask for
  int multiprocessors;
};

// With `dependent`, a kernel may start while its predecessor drains. It must call wait_for_inputs() before it touches anything
// that an earlier kernel wrote, or writes anything that an earlier kernel reads.
template <class... Parameters, class... Arguments>
void launch(const Launch& where, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = where.stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = where.dependent ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "kernel launch");
}

__device__ __forceinline__ void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// To the second-level cache: a hint, allowed before wait_for_inputs.
__device__ __forceinline__ void prefetch(const float* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// Conversions by hand, so that one source serves cards without bfloat16 units (compute capability 7.5).
__device__ __forceinline__ float widen(uint16_t value) { return __uint_as_float(static_cast<uint32_t>(value) << 16); }

__device__ __forceinline__ uint16_t narrow(float value) {  // round to nearest even
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ __forceinline__ float warp_sum(float value) {  // a fixed tree: the same bits wherever it runs
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// Sum over a block of up to 1,024 threads, known to all of them. `scratch` holds 32 floats.
__device__ __forceinline__ float block_sum(float value, float* scratch) {
  const int warps = (static_cast<int>(blockDim.x) + 31) / 32;
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < warps; ++i) sum += scratch[i];
  return sum;
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

}  // namespace paceline::ops::cuda
