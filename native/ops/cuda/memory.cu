#include "ops/cuda/memory.h"

#include "base/error.h"

namespace paceline::ops::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a later call shall not report this error again
  if (status == cudaErrorMemoryAllocation) {
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw OutOfMemoryError(concat(what, ": the device has ", free >> 20, " MiB free of ", total >> 20,
                                  " MiB: use fewer slots, a smaller context or a smaller checkpoint"));
  }
  throw Error(concat(what, ": ", cudaGetErrorString(status)));
}

DeviceBuffer::DeviceBuffer(size_t bytes, cudaStream_t stream) : size_(bytes) {
  check(cudaGetDevice(&device_), "cudaGetDevice");
  check(cudaMalloc(&data_, bytes == 0 ? 1 : bytes), "cudaMalloc");
  check(cudaMemsetAsync(data_, 0, bytes, stream), "cudaMemsetAsync");
}

DeviceBuffer::~DeviceBuffer() {
  int current = 0;
  cudaGetDevice(&current);
  if (current != device_) cudaSetDevice(device_);
  cudaFree(data_);
  if (current != device_) cudaSetDevice(current);
}

}  // namespace paceline::ops::cuda
