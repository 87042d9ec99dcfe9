// Operations that go over a row element by element.
#pragma once

namespace paceline::ops::cpu {
namespace {

// out = bf16(silu(gate) * up)
inline void swiglu(const float* gate, const float* up, int64_t count, uint16_t* out) {
  for_lanes(
      count, [&](int64_t i) { store_bf16(out + i, silu(load(gate + i)) * load(up + i)); },
      [&](int64_t i, int n) { store_bf16(out + i, silu(load(gate + i, n)) * load(up + i, n), n); });
}

inline void widen_bf16(const uint16_t* in, int64_t count, float* out) {
  for_lanes(
      count, [&](int64_t i) { store(out + i, load_bf16(in + i)); },
      [&](int64_t i, int n) { store(out + i, load_bf16(in + i, n), n); });
}

inline void narrow_bf16(const float* in, int64_t count, uint16_t* out) {
  for_lanes(
      count, [&](int64_t i) { store_bf16(out + i, load(in + i)); },
      [&](int64_t i, int n) { store_bf16(out + i, load(in + i, n), n); });
}

// target[i] += partials[0][i] + partials[1][i] + ..., one addition after the other in rank order
inline void add(const float* const* partials, int ranks, int64_t first, int64_t last, float* target) {
  for_lanes(
      last - first,
      [&](int64_t i) {
        Vec total = load(target + first + i);
        for (int rank = 0; rank < ranks; ++rank) total = total + load(partials[rank] + first + i);
        store(target + first + i, total);
      },
      [&](int64_t i, int n) {
        Vec total = load(target + first + i, n);
        for (int rank = 0; rank < ranks; ++rank) total = total + load(partials[rank] + first + i, n);
        store(target + first + i, total, n);
      });
}

}  // namespace
}  // namespace paceline::ops::cpu
