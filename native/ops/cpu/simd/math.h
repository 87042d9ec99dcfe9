// Elementary functions over Vec, and loops over rows with a ragged end. Included after one of the vec_*.h files.
#pragma once

namespace paceline::ops::cpu {
namespace {

// e^x to about 2 units in the last place over the whole range; 0 below, infinity above, NaN stays NaN.
inline Vec exp(Vec x) {
  x = min(set(89.0f), max(set(-104.0f), x));
  const Vec n = round_nearest(x * set(1.44269504f));
  Vec r = fnma(n, set(0.693359375f), x);  // ln 2 in two parts, so that the remainder keeps its digits
  r = fnma(n, set(-2.12194440e-4f), r);
  Vec p = set(1.9875691500e-4f);
  p = fma(p, r, set(1.3981999507e-3f));
  p = fma(p, r, set(8.3334519073e-3f));
  p = fma(p, r, set(4.1665795894e-2f));
  p = fma(p, r, set(1.6666665459e-1f));
  p = fma(p, r, set(5.0000001201e-1f));
  p = fma(p, r * r, r) + set(1.0f);
  return scale_by_power(p, n);
}

inline Vec sigmoid(Vec x) { return set(1.0f) / (set(1.0f) + exp(set(0.0f) - x)); }
inline Vec silu(Vec x) { return x / (set(1.0f) + exp(set(0.0f) - x)); }

// Calls whole(i) for every full vector of `count` elements and ragged(i, n) for the n that are left over.
template <typename Whole, typename Ragged>
inline void for_lanes(int64_t count, Whole&& whole, Ragged&& ragged) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) whole(i);
  if (i < count) ragged(i, static_cast<int>(count - i));
}

// Sum of squares; the lanes' partial sums meet at the end.
inline float square_sum(const float* x, int64_t count) {
  Vec total = set(0.0f);
  for_lanes(
      count,
      [&](int64_t i) {
        const Vec a = load(x + i);
        total = fma(a, a, total);
      },
      [&](int64_t i, int n) {
        const Vec a = load(x + i, n);
        total = fma(a, a, total);
      });
  return sum(total);
}

inline float dot(const float* x, const float* y, int64_t count) {
  Vec total = set(0.0f);
  for_lanes(
      count, [&](int64_t i) { total = fma(load(x + i), load(y + i), total); },
      [&](int64_t i, int n) { total = fma(load(x + i, n), load(y + i, n), total); });
  return sum(total);
}

}  // namespace
}  // namespace paceline::ops::cpu
