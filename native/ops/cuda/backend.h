// The CUDA backend of the operations: how to find devices and make one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace paceline::ops {

struct CudaDevice {
  int index;
  std::string name;
  int capability;         // 10 * major + minor
  size_t free_bytes;
  size_t total_bytes;
};

// The devices the driver offers; empty where there is no driver. Never throws for a machine without one.
std::vector<CudaDevice> cuda_devices();

// One rank's backend on one device: a stream of its own, device memory, graphs per step width.
// Throws ConfigError for a device that is not there or older than compute capability 7.5.
std::unique_ptr<Ops> make_cuda_ops(int device);

}  // namespace paceline::ops
