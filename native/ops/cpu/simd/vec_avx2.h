// Eight floats: AVX2 and FMA. Anonymous, so that no other translation unit can link to code built for this processor.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/cpu/unroll.h"

namespace paceline::ops::cpu {
namespace {

constexpr int kLanes = 8;

struct Vec {
  __m256 v;
};

inline __m256i first_lanes(int n) {  // n in 0..8
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline Vec set(float x) { return {_mm256_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline Vec load(const float* p, int n) { return {_mm256_maskload_ps(p, first_lanes(n))}; }
inline void store(float* p, Vec a) { _mm256_storeu_ps(p, a.v); }
inline void store(float* p, Vec a, int n) { _mm256_maskstore_ps(p, first_lanes(n), a.v); }

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }    // a * b + c
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a * b
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }                  // b where either is NaN
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }                  // b where either is NaN
inline bool any_nan(Vec a) { return _mm256_movemask_ps(_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)) != 0; }

inline float sum(Vec a) {
  __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
}

// out[row * ld + column] = sum(tile[4 * row + column]) for kTileRows rows of four: the folds of sum(), for eight vectors at a
// time.
constexpr int kTileRows = 2;
inline void tile_sums(const Vec (&tile)[4 * kTileRows], float* out, int64_t ld) {
  __m256 folded[4];
  PACELINE_UNROLL
  for (int i = 0; i < 4; ++i) {  // row 0 in the lower half, row 1 in the upper
    const __m256 a = tile[i].v, b = tile[4 + i].v;
    folded[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  }
  PACELINE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const __m256d a = _mm256_castps_pd(folded[2 * i]), b = _mm256_castps_pd(folded[2 * i + 1]);
    folded[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  }
  const __m256 sums = _mm256_add_ps(_mm256_shuffle_ps(folded[0], folded[1], 0x88), _mm256_shuffle_ps(folded[0], folded[1], 0xdd));
  _mm_storeu_ps(out, _mm256_castps256_ps128(sums));
  _mm_storeu_ps(out + ld, _mm256_extractf128_ps(sums, 1));
}

inline float largest(Vec a) {  // of lanes that hold no NaN
  __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  quarter = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(quarter, _mm_movehdup_ps(quarter)));
}

inline Vec round_nearest(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }

inline __m256 power(__m256i n) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23)); }
inline Vec scale_by_power(Vec a, Vec n) {  // a * 2^n for whole |n| <= 250: in two steps, for the ends of the range
  const __m256i whole = _mm256_cvtps_epi32(n.v);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  return {_mm256_mul_ps(_mm256_mul_ps(a.v, power(half)), power(_mm256_sub_epi32(whole, half)))};
}

inline Vec widen(__m128i bits) { return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))}; }
inline Vec load_bf16(const uint16_t* p) { return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline Vec load_bf16(const uint16_t* p, int n) {
  alignas(16) uint16_t bits[kLanes] = {};
  for (int i = 0; i < n; ++i) bits[i] = p[i];
  return load_bf16(bits);
}

inline __m128i narrow(Vec a) {  // round to nearest even; NaN stays a quiet NaN
  const __m256i bits = _mm256_castps_si256(a.v);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q));
  const __m256i chosen = _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1));
}
inline void store_bf16(uint16_t* p, Vec a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow(a)); }
inline void store_bf16(uint16_t* p, Vec a, int n) {
  alignas(16) uint16_t bits[kLanes];
  store_bf16(bits, a);
  for (int i = 0; i < n; ++i) p[i] = bits[i];
}

}  // namespace
}  // namespace paceline::ops::cpu
