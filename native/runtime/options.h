// How one engine is to run: resolved once, then frozen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/nodes.h"
#include "model/state.h"

namespace paceline::runtime {

enum class Mode : uint8_t { kSerial, kBatch };

struct EngineOptions {
  std::string mode = "batch";        // "serial": one request at a time; "batch": as many as there are slots
  int tp = 1;                        // ranks
  int slots = 8;                     // requests in work at once; serial mode uses one
  int context = 512;                 // positions a slot can hold: prompt and new tokens
  int threads = 0;                   // of the whole engine; 0: as many as this process may keep busy
  int prefill_rows = 256;            // rows of one prefill step
  int queue_limit = 4096;            // requests that may wait
  std::string isa = "auto";          // kernel path of the CPU
  std::string device = "cpu";        // or "cuda:N"
  std::string nodes = kMemoryNodes;  // where the kernel lists memory nodes
  int64_t weight_bytes = 0;  // of the checkpoint's matrices, where known: for the plan of memory before anything is allocated
};

// Throws ConfigError naming the option, its value and what is allowed.
void validate(const EngineOptions& options);

Mode mode_of(const EngineOptions& options);
int slots_in_use(const EngineOptions& options);             // 1 in serial mode
model::Capacity capacity_of(const EngineOptions& options);  // of each rank
int threads_per_rank(const EngineOptions& options);         // at least 1
bool oversubscribed(const EngineOptions& options);          // more rank threads than processors: nobody may spin

// Where each thread of each rank stays, [rank * threads_per_rank + thread]; empty, for anywhere, on a machine of one memory node
// and where no CPU computes.
std::vector<Processors> homes_of(const EngineOptions& options);

}  // namespace paceline::runtime
