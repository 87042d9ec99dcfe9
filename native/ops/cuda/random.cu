#include "ops/cuda/random.h"

#include <cuda_fp8.h>

namespace paceline::ops::cuda {
namespace {

constexpr float kLargestCode = 448.0f;
constexpr float kReach = 3.4641016f;  // 2 * sqrt(3): the largest draw, in standard deviations

__host__ __device__ uint64_t mix(uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// From -1 to 1: the sum of four even draws of 16 bits each.
__device__ float draw(uint64_t seed, int64_t index) {
  const uint64_t bits = mix(seed ^ mix(static_cast<uint64_t>(index)));
  const auto sum = static_cast<int>((bits & 0xffffu) + (bits >> 16 & 0xffffu) + (bits >> 32 & 0xffffu) + (bits >> 48));
  return static_cast<float>(sum - 2 * 65535) / (2.0f * 65535.0f);
}

__global__ void random_bf16(uint64_t seed, int64_t first, int64_t count, float deviation, uint16_t* out) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < count) out[i] = narrow(draw(seed, first + i) * kReach * deviation);
}

__global__ void random_codes(uint64_t seed, int64_t first, int64_t count, uint8_t* out) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < count) out[i] = __nv_cvt_float_to_fp8(draw(seed, first + i) * kLargestCode, __NV_SATFINITE, __NV_E4M3);
}

}  // namespace

void run_random(const Launch& where, DType dtype, uint64_t seed, int64_t first, int64_t count, float deviation, void* out) {
  const auto blocks = static_cast<unsigned>((count + 255) / 256);
  if (dtype == DType::kF8E4M3) {
    random_codes<<<blocks, 256, 0, where.stream>>>(seed, first, count, static_cast<uint8_t*>(out));
  } else {
    random_bf16<<<blocks, 256, 0, where.stream>>>(seed, first, count, deviation, static_cast<uint16_t*>(out));
  }
  check(cudaGetLastError(), "random numbers");
}

std::vector<float> random_scales(uint64_t seed, int64_t count, float deviation) {
  std::vector<float> scales(static_cast<size_t>(count));
  const float middle = deviation * kReach / kLargestCode;
  for (size_t i = 0; i < scales.size(); ++i) {
    const float even = static_cast<float>(mix(seed ^ mix(i)) >> 40) / static_cast<float>(1 << 24);
    scales[i] = middle * (0.75f + 0.5f * even);
  }
  return scales;
}

}  // namespace paceline::ops::cuda
