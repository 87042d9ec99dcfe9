// The largest value of each row and its lowest index; NaN counts as the largest.
#include <cmath>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {

void CpuOps::argmax(const float* x, int rows, int width, int ld, float* value, int32_t* index) {
  check<ConfigError>(width > 0, "argmax over rows of ", width, " columns, at least 1 is needed");
  constexpr int kStretch = 8192;  // columns handed out at a time, so that the threads share a lone row too
  const int stretches = (width + kStretch - 1) / kStretch;
  const int64_t items = static_cast<int64_t>(rows) * stretches;
  argmax_value_.resize(items);
  argmax_index_.resize(items);
  divide(items, 2, [&](int64_t first, int64_t last, int) {
    for (int64_t item = first; item < last; ++item) {
      const int start = static_cast<int>(item % stretches) * kStretch;
      const float* stretch = x + item / stretches * ld + start;
      vector_.argmax(stretch, std::min(kStretch, width - start), &argmax_value_[item], &argmax_index_[item]);
      argmax_index_[item] += start;
    }
  });
  for (int row = 0; row < rows; ++row) {  // ascending columns: the first of equals stays
    int64_t best = static_cast<int64_t>(row) * stretches;
    for (int64_t item = best; item < static_cast<int64_t>(row + 1) * stretches && !std::isnan(argmax_value_[best]); ++item) {
      if (argmax_value_[item] > argmax_value_[best] || std::isnan(argmax_value_[item])) best = item;
    }
    value[row] = argmax_value_[best];
    index[row] = argmax_index_[best];
  }
}

}  // namespace paceline::ops::cpu
