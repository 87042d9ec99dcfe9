// The CUDA backend of the operations: which devices there are, and how to make a backend on one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace paceline::ops {

struct CudaDevice {
  int index;
  std::string name;
  int capability;  // 10 * major + minor
  size_t total_bytes;
};

// The devices the driver offers; empty where there is no driver.
std::vector<CudaDevice> cuda_devices();

// Throws ConfigError for a device that is not there or older than compute capability 7.5.
void require_cuda_device(int device);

// Memory that the device has left. It must be there.
size_t cuda_free_bytes(int device);

// One rank's backend on one device: a stream of its own, device memory, a graph per kind of step. Its operations come from one
// thread at a time. Throws ConfigError as require_cuda_device does.
std::unique_ptr<Ops> make_cuda_ops(int device);

}  // namespace paceline::ops
