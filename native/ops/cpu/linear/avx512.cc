// Products on AVX-512 without BF16 arithmetic: weights widen to float32, 32 columns at a time.
#include <immintrin.h>

#include "ops/cpu/linear/driver.h"
#include "ops/cpu/unroll.h"

namespace paceline::ops::cpu {
namespace {

struct Columns {  // one pair of input features for two stretches of 16 columns
  __m512 even[2], odd[2];
};

inline __m512 pair_of_bf16(const uint16_t* x, int which) {  // x[which] in all lanes
  return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(static_cast<uint32_t>(x[which]) << 16)));
}

template <int M>
inline void add_pair(const Columns& w, const Activations& x, int64_t k, __m512 (&total)[M][2]) {
  PACELINE_UNROLL
  for (int row = 0; row < M; ++row) {
    const __m512 a = pair_of_bf16(x.data + row * x.ld + k, 0), b = pair_of_bf16(x.data + row * x.ld + k, 1);
    PACELINE_UNROLL
    for (int j = 0; j < 2; ++j) total[row][j] = _mm512_fmadd_ps(w.odd[j], b, _mm512_fmadd_ps(w.even[j], a, total[row][j]));
  }
}

inline Columns widen_bf16(const uint8_t* w) {
  Columns out;
  PACELINE_UNROLL
  for (int j = 0; j < 2; ++j) {
    const __m512i bits = _mm512_loadu_si512(w + 64 * j);
    out.even[j] = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
    out.odd[j] = _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  return out;
}

// 16-bit lanes with a code in the upper byte become the half-precision number code / 256; NaN stays NaN.
inline __m512i half_of_codes(__m512i upper) {
  const __m512i magnitude = _mm512_and_si512(upper, _mm512_set1_epi16(0x7f00));
  const __m512i sign = _mm512_and_si512(upper, _mm512_set1_epi16(static_cast<int16_t>(0x8000)));
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x7f00));
  const __m512i half = _mm512_or_si512(_mm512_srli_epi16(magnitude, 1), sign);
  return _mm512_mask_mov_epi16(half, nan, _mm512_set1_epi16(0x7e00));
}

inline Columns widen_fp8(const uint8_t* w) {                        // values / 256
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);  // the packed groups 0 4 1 5 2 6 3 7 into order
  const __m512i codes = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(w));
  const __m512i even = half_of_codes(_mm512_slli_epi16(codes, 8)), odd = half_of_codes(codes);
  return {{_mm512_cvtph_ps(_mm512_castsi512_si256(even)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(even, 1))},
          {_mm512_cvtph_ps(_mm512_castsi512_si256(odd)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(odd, 1))}};
}

inline __m512 column_scales(const BlockScale& scale, int column) {  // of 16 columns, times the 256 that the codes lack
  const uint32_t first = scale.split >= kBlockColumns ? ~0u : (1u << scale.split) - 1u;
  const __m512 chosen =
      _mm512_mask_blend_ps(static_cast<__mmask16>(first >> column), _mm512_set1_ps(scale.second), _mm512_set1_ps(scale.first));
  return _mm512_mul_ps(chosen, _mm512_set1_ps(256.0f));
}

struct Micro {
  static constexpr int kRows = 8;
  static constexpr bool kOnePass = true;

  template <int M>
  static void bf16(const uint8_t* w, const Activations& x, int pairs, Target y, Ahead ahead) {
    __m512 total[M][2];
    PACELINE_UNROLL
    for (int row = 0; row < M; ++row) {
      PACELINE_UNROLL
      for (int j = 0; j < 2; ++j) total[row][j] = _mm512_loadu_ps(y.data + row * y.ld + 16 * j);
    }
    for (int k = 0; k < pairs; ++k, w += 128, ahead.data += ahead.stride) {
      ahead.fetch();
      ahead.fetch(64);
      add_pair<M>(widen_bf16(w), x, 2 * k, total);
    }
    PACELINE_UNROLL
    for (int row = 0; row < M; ++row) {
      PACELINE_UNROLL
      for (int j = 0; j < 2; ++j) _mm512_storeu_ps(y.data + row * y.ld + 16 * j, total[row][j]);
    }
  }

  template <int M>
  static void fp8(const uint8_t* w, const BlockScale& scale, const Activations& x, Target y, Ahead ahead) {
    __m512 total[M][2];
    PACELINE_UNROLL
    for (int row = 0; row < M; ++row) total[row][0] = total[row][1] = _mm512_setzero_ps();
    for (int k = 0; k < kScaleBlock / 2; ++k, w += 64, ahead.data += ahead.stride) {
      ahead.fetch();
      add_pair<M>(widen_fp8(w), x, 2 * k, total);
    }
    PACELINE_UNROLL
    for (int j = 0; j < 2; ++j) {
      const __m512 factor = column_scales(scale, 16 * j);
      PACELINE_UNROLL
      for (int row = 0; row < M; ++row) {
        float* out = y.data + row * y.ld + 16 * j;
        _mm512_storeu_ps(out, _mm512_fmadd_ps(total[row][j], factor, _mm512_loadu_ps(out)));
      }
    }
  }
};

}  // namespace

void avx512_linear(const LinearCall& call) { all_blocks<Micro>(call); }

}  // namespace paceline::ops::cpu
