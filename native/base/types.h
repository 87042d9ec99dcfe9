// Element types and the conversions between them that every layer needs.
#pragma once

#include <bit>
#include <cstdint>

namespace paceline {

enum class DType : uint8_t { kBF16, kF16, kF32, kF8E4M3 };

constexpr int size_of(DType type) {
  switch (type) {
    case DType::kF32:
      return 4;
    case DType::kF8E4M3:
      return 1;
    default:
      return 2;
  }
}

inline float bf16_to_float(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

// Round to nearest even; NaN stays a (quiet) NaN.
inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace paceline
