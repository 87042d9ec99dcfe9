// FP8 E4M3 (the "fn" kind: no infinities, S.1111.111 is NaN), exactly.
#pragma once

#include <array>
#include <cstdint>

namespace paceline::ops::cpu {

// The bfloat16 bits of a code. Every E4M3 number is a bfloat16 number, subnormals too.
constexpr uint16_t fp8_to_bf16_bits(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 8;
  uint32_t exponent = (code >> 3) & 15u, mantissa = code & 7u;
  if ((code & 0x7fu) == 0x7fu) return static_cast<uint16_t>(sign | 0x7fc0u);
  if (exponent == 0) {
    if (mantissa == 0) return static_cast<uint16_t>(sign);
    exponent = 1;
    for (; (mantissa & 8u) == 0; mantissa <<= 1) --exponent;  // wraps below zero and comes back in the sum
    mantissa &= 7u;
  }
  return static_cast<uint16_t>(sign | ((exponent + 120u) << 7) | (mantissa << 4));
}

struct Fp8Bytes {  // the two bytes of the bfloat16 of each code without its sign
  std::array<uint8_t, 128> low, high;
};

constexpr Fp8Bytes make_fp8_bytes() {
  Fp8Bytes bytes{};
  for (int code = 0; code < 128; ++code) {
    const uint16_t bits = fp8_to_bf16_bits(static_cast<uint8_t>(code));
    bytes.low[code] = static_cast<uint8_t>(bits & 0xffu);
    bytes.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  return bytes;
}

// Where column c of a packed FP8 block of 32 stands: groups of 4 in the order 0 4 1 5 2 6 3 7, which is the order in which
// the 512-bit byte unpacking instructions put them right again.
constexpr int fp8_place(int column) {
  const int group = column / 4;
  return (group < 4 ? 2 * group : 2 * group - 7) * 4 + column % 4;
}

}  // namespace paceline::ops::cpu
