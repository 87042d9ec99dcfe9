// Random numbers made on the device, for models that exist for their speed: the same for a seed on every device.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "ops/cuda/runtime.h"

namespace paceline::ops::cuda {

// Elements [first, first + count) of an endless stream, as bfloat16 with the given standard deviation, or as e4m3 codes that fill
// the type's range up to its largest number, never NaN. Close to normal: sums of four even draws.
void run_random(const Launch& where, DType dtype, uint64_t seed, int64_t first, int64_t count, float deviation, void* out);

// Scales of such codes, one a block, around the one that gives the standard deviation `deviation`.
std::vector<float> random_scales(uint64_t seed, int64_t count, float deviation);

}  // namespace paceline::ops::cuda
