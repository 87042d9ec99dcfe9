#pragma once

#include "ops/cuda/runtime.h"
#include "ops/ops.h"

namespace paceline::ops::cuda {

struct DeltaNetJob {
  Rows rows;
  DeltaNetShape shape;
  DeltaNetInput in;
  DeltaNetState state;
  uint32_t* arrivals;  // [rows, key_heads], zero before and after
  uint16_t* out;       // [rows, value_heads * value_dim] bfloat16
};

// Whether the kernel serves this shape: key_dim 32, 64, 128 or 256, value_dim a multiple of 8 up to 256, 2 to 8 taps.
bool delta_net_fits(const DeltaNetShape& shape);

// The state is read before earlier kernels are known to be done, unless `where` forbids dependent launches: whoever wrote it in
// this step must be done.
void run_delta_net(const Launch& where, const DeltaNetJob& job);

}  // namespace paceline::ops::cuda
