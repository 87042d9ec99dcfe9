// FP8 to bfloat16 by byte tables (AVX-512 VBMI), and the scales of a block's columns. Included by the translation units that have
// it.
#pragma once

#include <immintrin.h>

#include "ops/cpu/fp8.h"
#include "ops/cpu/linear/driver.h"

namespace paceline::ops::cpu {
namespace {

constexpr Fp8Bytes kFp8Bytes = make_fp8_bytes();

class Fp8Table {
 public:
  Fp8Table()
      : low_{_mm512_loadu_si512(&kFp8Bytes.low), _mm512_loadu_si512(reinterpret_cast<const char*>(&kFp8Bytes.low) + 64)},
        high_{_mm512_loadu_si512(&kFp8Bytes.high), _mm512_loadu_si512(reinterpret_cast<const char*>(&kFp8Bytes.high) + 64)} {}

  // 64 packed codes: one pair of input features of 32 columns; `first` gets columns 0-15, `second` 16-31.
  void widen(const uint8_t* w, __m512i& first, __m512i& second) const {
    const __m512i codes = _mm512_loadu_si512(w);
    const __m512i low = _mm512_permutex2var_epi8(low_[0], codes, low_[1]);
    const __m512i magnitude = _mm512_permutex2var_epi8(high_[0], codes, high_[1]);
    const __m512i high =
        _mm512_ternarylogic_epi32(magnitude, codes, _mm512_set1_epi8(static_cast<char>(0x80)), 0xf8);  // a | b & c
    first = _mm512_unpacklo_epi8(low, high);
    second = _mm512_unpackhi_epi8(low, high);
  }

 private:
  __m512i low_[2], high_[2];
};

inline __m512 column_scales(const BlockScale& scale, int column) {  // of 16 columns
  const uint32_t first = scale.split >= kBlockColumns ? ~0u : (1u << scale.split) - 1u;
  return _mm512_mask_blend_ps(static_cast<__mmask16>(first >> column), _mm512_set1_ps(scale.second), _mm512_set1_ps(scale.first));
}

}  // namespace
}  // namespace paceline::ops::cpu
