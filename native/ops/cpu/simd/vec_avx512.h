// Sixteen floats: AVX-512 F, BW, DQ, VL. Anonymous, so that no other translation unit can link to code built for this processor.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ops/cpu/unroll.h"

namespace paceline::ops::cpu {
namespace {

constexpr int kLanes = 16;

struct Vec {
  __m512 v;
};

inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }  // n in 0..16

inline Vec set(float x) { return {_mm512_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Vec load(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
inline void store(float* p, Vec a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    // a * b + c
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a * b
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }                  // b where either is NaN
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }                  // b where either is NaN
inline bool any_nan(Vec a) { return _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q) != 0; }

inline float sum(Vec a) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
}

// out[row * ld + column] = sum(tile[4 * row + column]) for kTileRows rows of four: the folds of sum(), for sixteen vectors at a
// time.
constexpr int kTileRows = 4;
inline void tile_sums(const Vec (&tile)[4 * kTileRows], float* out, int64_t ld) {
  __m512 folded[8];
  PACELINE_UNROLL
  for (int i = 0; i < 8; ++i) {
    const __m512 a = tile[2 * i].v, b = tile[2 * i + 1].v;
    folded[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
  PACELINE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __m512 a = folded[2 * i], b = folded[2 * i + 1];
    folded[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }
  PACELINE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const __m512d a = _mm512_castps_pd(folded[2 * i]), b = _mm512_castps_pd(folded[2 * i + 1]);
    folded[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  const __m512 sums = _mm512_add_ps(_mm512_shuffle_ps(folded[0], folded[1], 0x88), _mm512_shuffle_ps(folded[0], folded[1], 0xdd));
  const __m512i order =
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);  // lane 4 c + r holds row r, column c
  const __m512 rows = _mm512_permutexvar_ps(order, sums);
  _mm_storeu_ps(out, _mm512_castps512_ps128(rows));
  _mm_storeu_ps(out + ld, _mm512_extractf32x4_ps(rows, 1));
  _mm_storeu_ps(out + 2 * ld, _mm512_extractf32x4_ps(rows, 2));
  _mm_storeu_ps(out + 3 * ld, _mm512_extractf32x4_ps(rows, 3));
}

inline float largest(Vec a) { return _mm512_reduce_max_ps(a.v); }  // of lanes that hold no NaN

inline Vec round_nearest(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
inline Vec scale_by_power(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }  // a * 2^n for whole n

inline Vec widen(__m256i bits) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))}; }
inline Vec load_bf16(const uint16_t* p) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
inline Vec load_bf16(const uint16_t* p, int n) { return widen(_mm256_maskz_loadu_epi16(first_lanes(n), p)); }

inline __m256i narrow(Vec a) {  // round to nearest even; NaN stays a quiet NaN
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, _mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(rounded);
}
inline void store_bf16(uint16_t* p, Vec a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(a)); }
inline void store_bf16(uint16_t* p, Vec a, int n) { _mm256_mask_storeu_epi16(p, first_lanes(n), narrow(a)); }

}  // namespace
}  // namespace paceline::ops::cpu
