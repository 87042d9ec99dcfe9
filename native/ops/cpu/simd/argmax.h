// The largest value of a row and its lowest index. NaN counts as larger than any number, as in torch, so that it is noticed.
#pragma once

#include <math.h>

namespace paceline::ops::cpu {
namespace {

// The answer for a short stretch, element by element.
inline void argmax_scan(const float* x, int width, float* value, int32_t* index) {
  *value = x[0];
  *index = 0;
  for (int i = 0; i < width && *value == *value; ++i) {
    if (x[i] > *value || x[i] != x[i]) {
      *value = x[i];
      *index = i;
    }
  }
}

inline void argmax(const float* x, int width, float* value, int32_t* index) {
  constexpr int kStretch = 128 * kLanes;  // the vector pass finds the stretch, the scan finds the place in it
  float best = -INFINITY;
  int best_start = 0;
  int start = 0;
  for (; start + kStretch <= width; start += kStretch) {
    Vec top = load(x + start), second = load(x + start + kLanes);
    bool nan = any_nan(top + second);
    for (int i = 2 * kLanes; i < kStretch; i += 2 * kLanes) {
      const Vec a = load(x + start + i), b = load(x + start + i + kLanes);
      nan |= any_nan(a + b);
      top = max(top, a);
      second = max(second, b);
    }
    if (nan) {  // or infinities of both signs: the scan tells
      argmax_scan(x + start, kStretch, value, index);
      if (*value != *value) {
        *index += start;
        return;
      }
      top = second = set(*value);
    }
    const float here = largest(max(top, second));
    if (here > best) {
      best = here;
      best_start = start;
    }
  }
  const int length = width - best_start < kStretch ? width - best_start : kStretch;
  argmax_scan(x + best_start, length, value, index);
  *index += best_start;
  if (start >= width || best_start == start) return;
  float tail = 0;
  int32_t tail_index = 0;
  argmax_scan(x + start, width - start, &tail, &tail_index);
  if (tail > *value || tail != tail) {
    *value = tail;
    *index = tail_index + start;
  }
}

}  // namespace
}  // namespace paceline::ops::cpu
