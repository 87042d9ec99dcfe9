// RMS norm of one row.
#pragma once

#include <math.h>

namespace paceline::ops::cpu {
namespace {

// out = bf16(x * rsqrt(mean(x^2) + eps) * weight)
inline void rms_norm(const float* x, const float* weight, float eps, int width, uint16_t* out) {
  const Vec scale = set(1.0f / sqrtf(square_sum(x, width) / static_cast<float>(width) + eps));
  for_lanes(
      width, [&](int64_t i) { store_bf16(out + i, load(x + i) * scale * load(weight + i)); },
      [&](int64_t i, int n) { store_bf16(out + i, load(x + i, n) * scale * load(weight + i, n), n); });
}

}  // namespace
}  // namespace paceline::ops::cpu
