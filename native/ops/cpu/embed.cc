// hidden = the tokens' rows of the embedding table, widened.
#include <cstring>

#include "base/error.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {

void CpuOps::embed(const Rows& rows, const void* table, DType dtype, int width, float* hidden) {
  check<ConfigError>(dtype != DType::kF8E4M3, "the embedding table is FP8, allowed are BF16, F16 and F32");
  divide(rows.count, 16, [&](int64_t first, int64_t last, int) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t offset = static_cast<int64_t>(rows.token[row]) * width;
      float* out = hidden + row * width;
      if (dtype == DType::kBF16) {
        vector_.widen_bf16(static_cast<const uint16_t*>(table) + offset, width, out);
      } else if (dtype == DType::kF32) {
        std::memcpy(out, static_cast<const float*>(table) + offset, static_cast<size_t>(width) * sizeof(float));
      } else {
        const auto* in = static_cast<const uint16_t*>(table) + offset;
        for (int i = 0; i < width; ++i) out[i] = half_to_float(in[i]);
      }
    }
  });
}

}  // namespace paceline::ops::cpu
