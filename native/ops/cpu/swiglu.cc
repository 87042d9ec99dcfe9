// out = silu(gate) * up for every row.
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {

void CpuOps::swiglu(const float* gate_up, int rows, int width, uint16_t* out) {
  constexpr int64_t kStretch = 1024;  // elements of a row handed out at a time
  const int64_t stretches = (width + kStretch - 1) / kStretch;
  divide(rows * stretches, 4, [&](int64_t first, int64_t last, int) {
    for (int64_t item = first; item < last; ++item) {
      const int64_t row = item / stretches, start = item % stretches * kStretch;
      const float* gate = gate_up + row * 2 * width + start;
      vector_.swiglu(gate, gate + width, std::min<int64_t>(kStretch, width - start), out + row * width + start);
    }
  });
}

}  // namespace paceline::ops::cpu
