// The gated delta rule of one value head, row after row, and the gated norm behind it.
//   S *= e^g;  d = (v - S k) beta;  S += d k^T;  o = S q        with S [value_dim, key_dim]
#pragma once

#include <math.h>

namespace paceline::ops::cpu {
namespace {

constexpr float kL2Epsilon = 1e-6f;

// out = x * rsqrt(sum x^2 + 1e-6) * factor
inline void l2_normalise(const float* x, int count, float factor, float* out) {
  const Vec scale = set(factor / sqrtf(square_sum(x, count) + kL2Epsilon));
  for_lanes(
      count, [&](int64_t i) { store(out + i, load(x + i) * scale); },
      [&](int64_t i, int n) { store(out + i, load(x + i, n) * scale, n); });
}

// out = bf16(rms_norm(o) * weight * silu(z))
inline void gated_norm(const DeltaCall& call, const float* o, int row) {
  const int width = call.value_dim;
  const float* z = call.z + row * call.ld_z;
  uint16_t* out = call.out + row * call.ld_out;
  const Vec scale = set(1.0f / sqrtf(square_sum(o, width) / static_cast<float>(width) + call.eps));
  for_lanes(
      width, [&](int64_t i) { store_bf16(out + i, load(o + i) * scale * load(call.norm + i) * silu(load(z + i))); },
      [&](int64_t i, int n) { store_bf16(out + i, load(o + i, n) * scale * load(call.norm + i, n) * silu(load(z + i, n)), n); });
}

// kColumns consecutive state columns (rows of `state`) take one step. o = decay S q + d (k . q), so that one pass gives both
// products.
template <int kColumns>
inline void delta_columns(float* state, int key_dim, const float* k, const float* q, const float* v, float decay, float beta,
                          float k_dot_q, float* o) {
  Vec with_k[kColumns], with_q[kColumns];
  PACELINE_UNROLL
  for (int c = 0; c < kColumns; ++c) with_k[c] = with_q[c] = set(0.0f);
  const auto accumulate = [&](Vec key, Vec query, auto&& column) {
    PACELINE_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const Vec s = column(c);
      with_k[c] = fma(s, key, with_k[c]);
      with_q[c] = fma(s, query, with_q[c]);
    }
  };
  for_lanes(
      key_dim, [&](int64_t i) { accumulate(load(k + i), load(q + i), [&](int c) { return load(state + c * key_dim + i); }); },
      [&](int64_t i, int n) {
        accumulate(load(k + i, n), load(q + i, n), [&](int c) { return load(state + c * key_dim + i, n); });
      });
  Vec delta[kColumns];
  PACELINE_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    const float d = (v[c] - decay * sum(with_k[c])) * beta;
    o[c] = decay * sum(with_q[c]) + d * k_dot_q;
    delta[c] = set(d);
  }
  const Vec factor = set(decay);
  for_lanes(
      key_dim,
      [&](int64_t i) {
        const Vec key = load(k + i);
        PACELINE_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          float* at = state + c * key_dim + i;
          store(at, fma(delta[c], key, load(at) * factor));
        }
      },
      [&](int64_t i, int n) {
        const Vec key = load(k + i, n);
        PACELINE_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          float* at = state + c * key_dim + i;
          store(at, fma(delta[c], key, load(at, n) * factor), n);
        }
      });
}

inline void delta_sequential(const DeltaCall& call) {
  float* q = call.scratch;
  float* k = q + call.key_dim;
  float* o = k + call.key_dim;
  const float query_factor = 1.0f / sqrtf(static_cast<float>(call.key_dim));
  for (int row = 0; row < call.rows; ++row) {
    l2_normalise(call.q + row * call.ld, call.key_dim, query_factor, q);
    l2_normalise(call.k + row * call.ld, call.key_dim, 1.0f, k);
    const float* v = call.v + row * call.ld;
    const float decay = expf(call.log_decay[row]), beta = call.beta[row], k_dot_q = dot(k, q, call.key_dim);
    int c = 0;
    for (; c + 4 <= call.value_dim; c += 4) {
      delta_columns<4>(call.state + static_cast<int64_t>(c) * call.key_dim, call.key_dim, k, q, v + c, decay, beta, k_dot_q,
                       o + c);
    }
    for (; c < call.value_dim; ++c) {
      delta_columns<1>(call.state + static_cast<int64_t>(c) * call.key_dim, call.key_dim, k, q, v + c, decay, beta, k_dot_q,
                       o + c);
    }
    gated_norm(call, o, row);
  }
}

}  // namespace
}  // namespace paceline::ops::cpu
