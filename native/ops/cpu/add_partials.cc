// The arithmetic of an all-reduce: partial sums added in rank order.
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {

void CpuOps::add_partials(std::span<const float* const> partials, int64_t count, float* target) {
  divide(count, 16384, [&](int64_t first, int64_t last, int) {
    vector_.add(partials.data(), static_cast<int>(partials.size()), first, last, target);
  });
}

}  // namespace paceline::ops::cpu
