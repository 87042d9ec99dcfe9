// How fast this device reads: the ceiling that products are held against.
#include <algorithm>

#include "ops/cuda/memory.h"
#include "ops/cuda/test/harness.h"

namespace paceline::ops::cuda_test {
namespace {

constexpr size_t kBytes = size_t{4} << 30;

__global__ void __launch_bounds__(512) read_all(const uint4* from, size_t count, uint32_t* out) {
  uint32_t mixed = 0;
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += 4 * step) {
    uint4 quad[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (i + j * step < count) quad[j] = from[i + j * step];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) mixed ^= quad[j].x ^ quad[j].y ^ quad[j].z ^ quad[j].w;
  }
  if (mixed == 0x12345678u) *out = mixed;  // keeps the loads
}

}  // namespace

double probe_read_bandwidth() {
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  cuda::DeviceBuffer memory(kBytes, stream), out(sizeof(uint32_t), stream);
  cudaEvent_t begin, end;
  cuda::check(cudaEventCreate(&begin), "cudaEventCreate");
  cuda::check(cudaEventCreate(&end), "cudaEventCreate");
  int device = 0, multiprocessors = 0;
  cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  cuda::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  float best = 1e9f;
  for (int time = 0; time < 8; ++time) {
    cuda::check(cudaEventRecord(begin, stream), "cudaEventRecord");
    read_all<<<multiprocessors * 4, 512, 0, stream>>>(static_cast<const uint4*>(memory.data()), kBytes / sizeof(uint4),
                                                      static_cast<uint32_t*>(out.data()));
    cuda::check(cudaEventRecord(end, stream), "cudaEventRecord");
    cuda::check(cudaStreamSynchronize(stream), "read_all");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    best = std::min(best, milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  return static_cast<double>(kBytes) / best * 1e-6;
}

}  // namespace paceline::ops::cuda_test
