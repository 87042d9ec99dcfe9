// Products on AVX2 + FMA + F16C: weights widen to float32, 16 columns at a time.
#include <immintrin.h>

#include "ops/cpu/linear/driver.h"
#include "ops/cpu/unroll.h"

namespace paceline::ops::cpu {
namespace {

struct Columns {  // one pair of input features for two stretches of 8 columns
  __m256 even[2], odd[2];
};

inline __m256 pair_of_bf16(const uint16_t* x, int which) {  // x[which] in all lanes
  return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(static_cast<uint32_t>(x[which]) << 16)));
}

template <int M>
inline void add_pair(const Columns& w, const Activations& x, int64_t k, __m256 (&total)[M][2]) {
  PACELINE_UNROLL
  for (int row = 0; row < M; ++row) {
    const __m256 a = pair_of_bf16(x.data + row * x.ld + k, 0), b = pair_of_bf16(x.data + row * x.ld + k, 1);
    PACELINE_UNROLL
    for (int j = 0; j < 2; ++j) total[row][j] = _mm256_fmadd_ps(w.odd[j], b, _mm256_fmadd_ps(w.even[j], a, total[row][j]));
  }
}

inline Columns widen_bf16(const uint8_t* w) {  // columns 0-7 and 8-15 of w
  Columns out;
  PACELINE_UNROLL
  for (int j = 0; j < 2; ++j) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32 * j));
    out.even[j] = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    out.odd[j] = _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  return out;
}

// 16-bit lanes with a code in the upper byte become the half-precision number code / 256; NaN stays NaN.
inline __m256i half_of_codes(__m256i upper) {
  const __m256i magnitude = _mm256_and_si256(upper, _mm256_set1_epi16(0x7f00));
  const __m256i sign = _mm256_and_si256(upper, _mm256_set1_epi16(static_cast<int16_t>(0x8000)));
  const __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f00));
  return _mm256_or_si256(_mm256_or_si256(_mm256_srli_epi16(magnitude, 1), sign), nan);
}

inline Columns widen_fp8(const uint8_t* w) {  // 32 bytes: 8 columns c.. and 8 columns c + 16..; values / 256
  const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  const __m256i codes = _mm256_permute4x64_epi64(stored, 0xd8);  // groups c, c + 4, c + 1, c + 5 into order
  const __m256i even = half_of_codes(_mm256_slli_epi16(codes, 8)), odd = half_of_codes(codes);
  return {{_mm256_cvtph_ps(_mm256_castsi256_si128(even)), _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1))},
          {_mm256_cvtph_ps(_mm256_castsi256_si128(odd)), _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1))}};
}

inline __m256 column_scales(const BlockScale& scale, int column) {  // of 8 columns, times the 256 that the codes lack
  const __m256i columns = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(column));
  const __m256 first = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(scale.split), columns));
  const __m256 chosen = _mm256_blendv_ps(_mm256_set1_ps(scale.second), _mm256_set1_ps(scale.first), first);
  return _mm256_mul_ps(chosen, _mm256_set1_ps(256.0f));
}

struct Micro {
  static constexpr int kRows = 4;
  static constexpr bool kOnePass = false;

  template <int M>
  static void bf16(const uint8_t* w, const Activations& x, int pairs, Target y, Ahead ahead) {
    for (int half = 0; half < 2; ++half) {
      __m256 total[M][2];
      PACELINE_UNROLL
      for (int row = 0; row < M; ++row) {
        PACELINE_UNROLL
        for (int j = 0; j < 2; ++j) total[row][j] = _mm256_loadu_ps(y.data + row * y.ld + 16 * half + 8 * j);
      }
      const uint8_t *at = w + 64 * half, *next = ahead.data + 64 * half;
      for (int k = 0; k < pairs; ++k, at += 128, next += ahead.stride) {
        _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
        add_pair<M>(widen_bf16(at), x, 2 * k, total);
      }
      PACELINE_UNROLL
      for (int row = 0; row < M; ++row) {
        PACELINE_UNROLL
        for (int j = 0; j < 2; ++j) _mm256_storeu_ps(y.data + row * y.ld + 16 * half + 8 * j, total[row][j]);
      }
    }
  }

  template <int M>
  static void fp8(const uint8_t* w, const BlockScale& scale, const Activations& x, Target y, Ahead ahead) {
    for (int half = 0; half < 2; ++half) {
      __m256 total[M][2];
      PACELINE_UNROLL
      for (int row = 0; row < M; ++row) total[row][0] = total[row][1] = _mm256_setzero_ps();
      const uint8_t *at = w + 32 * half, *next = ahead.data;
      for (int k = 0; k < kScaleBlock / 2; ++k, at += 64, next += ahead.stride) {
        _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
        add_pair<M>(widen_fp8(at), x, 2 * k, total);
      }
      PACELINE_UNROLL
      for (int j = 0; j < 2; ++j) {
        const int column = 8 * half + 16 * j;
        const __m256 factor = column_scales(scale, column);
        PACELINE_UNROLL
        for (int row = 0; row < M; ++row) {
          float* out = y.data + row * y.ld + column;
          _mm256_storeu_ps(out, _mm256_fmadd_ps(total[row][j], factor, _mm256_loadu_ps(out)));
        }
      }
    }
  }
};

}  // namespace

void avx2_linear(const LinearCall& call) { all_blocks<Micro>(call); }

}  // namespace paceline::ops::cpu
