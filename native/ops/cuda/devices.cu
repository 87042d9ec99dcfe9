// Which devices there are, and a backend on one of them.
#include "base/error.h"
#include "ops/cuda/backend.h"
#include "ops/cuda/cuda_ops.h"

namespace paceline::ops {
namespace {

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

}  // namespace

std::vector<CudaDevice> cuda_devices() {
  std::vector<CudaDevice> devices;
  for (int i = 0; i < device_count(); ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    devices.push_back({.index = i,
                       .name = properties.name,
                       .capability = 10 * properties.major + properties.minor,
                       .total_bytes = properties.totalGlobalMem});
  }
  return devices;
}

size_t cuda_free_bytes(int device) {
  size_t free = 0, total = 0;
  cuda::check(cudaSetDevice(device), "cudaSetDevice");
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

void require_cuda_device(int device) {
  const int count = device_count();
  check<ConfigError>(count > 0, "device = cuda:", device,
                     ": no CUDA device is visible here (is the driver loaded?); use device = cpu");
  check<ConfigError>(device >= 0 && device < count, "device = cuda:", device, ": this machine has cuda:0 .. cuda:", count - 1);
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  check<ConfigError>(10 * properties.major + properties.minor >= 75, "device = cuda:", device, ": ", properties.name,
                     " has compute capability ", properties.major, ".", properties.minor, ", at least 7.5 is needed");
}

std::unique_ptr<Ops> make_cuda_ops(int device) {
  require_cuda_device(device);
  return std::make_unique<cuda::CudaOps>(device);
}

}  // namespace paceline::ops
