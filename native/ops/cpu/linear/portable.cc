// Products in plain C++; the compiler vectorises the loops over columns.
#include <bit>

#include "base/types.h"
#include "ops/cpu/fp8.h"
#include "ops/cpu/linear/driver.h"

namespace paceline::ops::cpu {
namespace {

constexpr auto kFp8ToBf16 = [] {
  std::array<uint16_t, 256> table{};
  for (int code = 0; code < 256; ++code) table[code] = fp8_to_bf16_bits(static_cast<uint8_t>(code));
  return table;
}();

struct Micro {
  static constexpr int kRows = 4;
  static constexpr bool kOnePass = true;

  template <int M>
  static void add_pair(const float (&even)[kBlockColumns], const float (&odd)[kBlockColumns], const Activations& x, int64_t k,
                       float (&total)[M][kBlockColumns]) {
    for (int row = 0; row < M; ++row) {
      const float a = bf16_to_float(x.data[row * x.ld + k]), b = bf16_to_float(x.data[row * x.ld + k + 1]);
      for (int c = 0; c < kBlockColumns; ++c) total[row][c] += even[c] * a;
      for (int c = 0; c < kBlockColumns; ++c) total[row][c] += odd[c] * b;
    }
  }

  template <int M>
  static void bf16(const uint8_t* w, const Activations& x, int pairs, Target y, Ahead) {
    float total[M][kBlockColumns], even[kBlockColumns], odd[kBlockColumns];
    for (int row = 0; row < M; ++row) memcpy(total[row], y.data + row * y.ld, sizeof(total[row]));
    for (int k = 0; k < pairs; ++k, w += 4 * kBlockColumns) {
      uint16_t bits[2 * kBlockColumns];
      memcpy(bits, w, sizeof(bits));
      for (int c = 0; c < kBlockColumns; ++c) {
        even[c] = bf16_to_float(bits[2 * c]);
        odd[c] = bf16_to_float(bits[2 * c + 1]);
      }
      add_pair<M>(even, odd, x, 2 * k, total);
    }
    for (int row = 0; row < M; ++row) memcpy(y.data + row * y.ld, total[row], sizeof(total[row]));
  }

  template <int M>
  static void fp8(const uint8_t* w, const BlockScale& scale, const Activations& x, Target y, Ahead) {
    float total[M][kBlockColumns] = {}, even[kBlockColumns], odd[kBlockColumns];
    for (int k = 0; k < kScaleBlock / 2; ++k, w += 2 * kBlockColumns) {
      for (int c = 0; c < kBlockColumns; ++c) {
        even[c] = bf16_to_float(kFp8ToBf16[w[2 * fp8_place(c)]]);
        odd[c] = bf16_to_float(kFp8ToBf16[w[2 * fp8_place(c) + 1]]);
      }
      add_pair<M>(even, odd, x, 2 * k, total);
    }
    for (int row = 0; row < M; ++row) {
      for (int c = 0; c < kBlockColumns; ++c)
        y.data[row * y.ld + c] += total[row][c] * (c < scale.split ? scale.first : scale.second);
    }
  }
};

}  // namespace

void portable_linear(const LinearCall& call) { all_blocks<Micro>(call); }

}  // namespace paceline::ops::cpu
