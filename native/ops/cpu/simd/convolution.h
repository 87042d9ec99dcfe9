// The causal depthwise convolution in front of a DeltaNet layer, with SiLU, for one run of rows.
#pragma once

namespace paceline::ops::cpu {
namespace {

// The channels' input `back` rows before row `row`; in front of the run stands the state, whose last row is row -1.
inline const float* convolution_input(const ConvolveCall& call, int row) {
  return row >= 0 ? call.in + row * call.ld_in : call.state + (call.kernel - 1 + row) * call.ld_state;
}

template <typename Load, typename Store>
inline void convolve_lanes(const ConvolveCall& call, Load&& get, Store&& put) {
  for (int row = 0; row < call.rows; ++row) {
    Vec total = set(0.0f);
    for (int tap = 0; tap < call.kernel; ++tap) {
      const int source = row - (call.kernel - 1) + tap;
      if (source < 0 && call.fresh) continue;
      total = fma(get(call.weight + tap * call.width), get(convolution_input(call, source)), total);
    }
    put(call.out + row * call.ld_out, silu(total));
  }
  for (int i = 0; i < call.kernel - 1; ++i) {  // oldest first: a row is read before it is written over
    const int source = call.rows - (call.kernel - 1) + i;
    const bool zero = source < 0 && call.fresh;
    put(call.state + i * call.ld_state, zero ? set(0.0f) : get(convolution_input(call, source)));
  }
}

inline void convolve(const ConvolveCall& call) {
  for_lanes(
      call.width,
      [&](int64_t i) {
        convolve_lanes(call, [=](const float* p) { return load(p + i); }, [=](float* p, Vec v) { store(p + i, v); });
      },
      [&](int64_t i, int n) {
        convolve_lanes(call, [=](const float* p) { return load(p + i, n); }, [=](float* p, Vec v) { store(p + i, v, n); });
      });
}

}  // namespace
}  // namespace paceline::ops::cpu
