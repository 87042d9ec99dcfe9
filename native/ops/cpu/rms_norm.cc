// RMS norm of every row.
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {

void CpuOps::rms_norm(const float* x, const float* weight, float eps, int rows, int width, uint16_t* out) {
  divide(rows, std::max(1, 16384 / std::max(1, width)), [&](int64_t first, int64_t last, int) {
    for (int64_t row = first; row < last; ++row) vector_.rms_norm(x + row * width, weight, eps, width, out + row * width);
  });
}

}  // namespace paceline::ops::cpu
