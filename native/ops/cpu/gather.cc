// The rows whose logits are wanted.
#include <cstring>

#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {

void CpuOps::gather(const float* in, const int32_t* index, int count, int width, float* out) {
  for (int64_t row = 0; row < count; ++row) {
    std::memcpy(out + row * width, in + static_cast<int64_t>(index[row]) * width, static_cast<size_t>(width) * sizeof(float));
  }
}

}  // namespace paceline::ops::cpu
