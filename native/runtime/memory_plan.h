// What an engine will allocate, held against what the machine has, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "model/config.h"
#include "runtime/options.h"

namespace paceline::runtime {

struct MemoryPlan {      // bytes, all ranks together
  uint64_t weights = 0;  // as told by the options, or at least one byte an element
  uint64_t kv_cache = 0;
  uint64_t state = 0;    // DeltaNet and convolution
  uint64_t scratch = 0;  // with the communicator's buffers
  uint64_t sum() const { return weights + kv_cache + state + scratch; }
};

MemoryPlan plan_memory(const model::ModelConfig& config, const EngineOptions& options);

// Bytes this process may still take: what the machine has available, or what its cgroup's limit leaves, whichever is less.
// UINT64_MAX where the system does not say.
uint64_t available_memory();

// Throws OutOfMemoryError with the parts of the plan and the option that lowers the largest, unless the plan fits `available`.
void require_memory(const MemoryPlan& plan, const EngineOptions& options, uint64_t available);

std::string bytes_text(uint64_t bytes);  // "1.25 GiB"

}  // namespace paceline::runtime
