// Products on AVX-512 with BF16 dot products and VBMI: 32 columns at a time, a pair of input features an instruction.
#include <immintrin.h>

#include "ops/cpu/linear/driver.h"
#include "ops/cpu/linear/fp8_vbmi.h"
#include "ops/cpu/unroll.h"

namespace paceline::ops::cpu {
namespace {

inline __m512bh pair_in_all_lanes(const uint16_t* x) {
  int bits;
  memcpy(&bits, x, sizeof(bits));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

template <int M>
inline void add_pair(__m512i first, __m512i second, const Activations& x, int64_t k, __m512 (&total)[M][2]) {
  PACELINE_UNROLL
  for (int row = 0; row < M; ++row) {
    const __m512bh pair = pair_in_all_lanes(x.data + row * x.ld + k);
    total[row][0] = _mm512_dpbf16_ps(total[row][0], reinterpret_cast<__m512bh>(first), pair);
    total[row][1] = _mm512_dpbf16_ps(total[row][1], reinterpret_cast<__m512bh>(second), pair);
  }
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
      add_pair<M>(_mm512_loadu_si512(w), _mm512_loadu_si512(w + 64), x, 2 * k, total);
    }
    PACELINE_UNROLL
    for (int row = 0; row < M; ++row) {
      PACELINE_UNROLL
      for (int j = 0; j < 2; ++j) _mm512_storeu_ps(y.data + row * y.ld + 16 * j, total[row][j]);
    }
  }

  template <int M>
  static void fp8(const uint8_t* w, const BlockScale& scale, const Activations& x, Target y, Ahead ahead) {
    const Fp8Table table;
    __m512 total[M][2];
    PACELINE_UNROLL
    for (int row = 0; row < M; ++row) total[row][0] = total[row][1] = _mm512_setzero_ps();
    for (int k = 0; k < kScaleBlock / 2; ++k, w += 64, ahead.data += ahead.stride) {
      ahead.fetch();
      __m512i first, second;
      table.widen(w, first, second);
      add_pair<M>(first, second, x, 2 * k, total);
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

void avx512_bf16_linear(const LinearCall& call) { all_blocks<Micro>(call); }

}  // namespace paceline::ops::cpu
