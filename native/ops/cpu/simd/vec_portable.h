// Four floats in plain C++, for any processor: compilers turn the loops into SSE2 or NEON. Anonymous like its siblings.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/types.h"

namespace paceline::ops::cpu {
namespace {

constexpr int kLanes = 4;

struct Vec {
  float v[kLanes];
};

template <typename F>
inline Vec each(F&& lane) {
  Vec out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = lane(i);
  return out;
}

inline Vec set(float x) {
  return each([=](int) { return x; });
}
inline Vec load(const float* p) {
  return each([=](int i) { return p[i]; });
}
inline Vec load(const float* p, int n) {
  return each([=](int i) { return i < n ? p[i] : 0.0f; });
}
inline void store(float* p, Vec a) { std::memcpy(p, a.v, sizeof(a.v)); }
inline void store(float* p, Vec a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}

inline Vec operator+(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Vec operator-(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline Vec operator*(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Vec operator/(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }  // two roundings: no fused instruction is assumed
inline Vec fnma(Vec a, Vec b, Vec c) { return c - a * b; }
inline Vec max(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}  // b where either is NaN
inline Vec min(Vec a, Vec b) {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}  // b where either is NaN
inline bool any_nan(Vec a) {
  bool found = false;
  for (const float lane : a.v) found |= lane != lane;
  return found;
}

inline float sum(Vec a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
// out[row * ld + column] = sum(tile[4 * row + column]) for kTileRows rows of four.
constexpr int kTileRows = 2;
inline void tile_sums(const Vec (&tile)[4 * kTileRows], float* out, int64_t ld) {
  for (int i = 0; i < 4 * kTileRows; ++i) out[i / 4 * ld + i % 4] = sum(tile[i]);
}

inline float largest(Vec a) {  // of lanes that hold no NaN
  const float low = a.v[0] > a.v[1] ? a.v[0] : a.v[1], high = a.v[2] > a.v[3] ? a.v[2] : a.v[3];
  return low > high ? low : high;
}

inline Vec round_nearest(Vec a) {
  return each([&](int i) { return nearbyintf(a.v[i]); });
}
inline float power(int n) { return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23); }
inline Vec scale_by_power(Vec a, Vec n) {  // a * 2^n for whole |n| <= 250: in two steps, for the ends of the range
  return each([&](int i) {
    const int whole = n.v[i] == n.v[i] ? static_cast<int>(n.v[i]) : 0;
    const int half = whole >> 1;
    return a.v[i] * power(half) * power(whole - half);
  });
}

inline Vec load_bf16(const uint16_t* p) {
  return each([=](int i) { return bf16_to_float(p[i]); });
}
inline Vec load_bf16(const uint16_t* p, int n) {
  return each([=](int i) { return i < n ? bf16_to_float(p[i]) : 0.0f; });
}
inline void store_bf16(uint16_t* p, Vec a, int n) {
  for (int i = 0; i < n; ++i) p[i] = float_to_bf16(a.v[i]);
}
inline void store_bf16(uint16_t* p, Vec a) { store_bf16(p, a, kLanes); }

}  // namespace
}  // namespace paceline::ops::cpu
