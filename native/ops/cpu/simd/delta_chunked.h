// The gated delta rule in chunks of 64 rows: inside a chunk the corrections of all rows come from one triangular system.
// With G_i the summed log decay of rows 0..i of the chunk, S the state before it, and u_i the correction that row i adds:
//   u_i = beta_i (v_i - e^G_i S k_i - sum over j < i of e^(G_i - G_j) (k_i . k_j) u_j)
//   o_i = e^G_i S q_i + sum over j <= i of e^(G_i - G_j) (q_i . k_j) u_j
//   S'  = e^G_last S + sum over j of e^(G_last - G_j) u_j k_j^T
// Every exponent is at most 0.
#pragma once

#include <math.h>

namespace paceline::ops::cpu {
namespace {

struct DeltaChunk {  // scratch of one chunk
  int rows;
  float *q, *k;    // [rows, key_dim], normalised
  float* u;        // [rows, value_dim]: S k, then the corrections
  float* o;        // [rows, value_dim]
  float *kk, *qk;  // [rows, rows]
  float* summed;   // [rows]: G
};

// out[i] += factor * x[i]
inline void add_scaled(float factor, const float* x, int64_t count, float* out) {
  const Vec f = set(factor);
  for_lanes(
      count, [&](int64_t i) { store(out + i, fma(f, load(x + i), load(out + i))); },
      [&](int64_t i, int n) { store(out + i, fma(f, load(x + i, n), load(out + i, n)), n); });
}

// out[r * ld_out + c] = a[r] . b[c] for four rows of a and one b: b is loaded once.
inline void dot_four(const float* a, int64_t ld_a, const float* b, int count, float* out, int64_t ld_out) {
  Vec total[4] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
  for_lanes(
      count,
      [&](int64_t i) {
        const Vec x = load(b + i);
        for (int r = 0; r < 4; ++r) total[r] = fma(load(a + r * ld_a + i), x, total[r]);
      },
      [&](int64_t i, int n) {
        const Vec x = load(b + i, n);
        for (int r = 0; r < 4; ++r) total[r] = fma(load(a + r * ld_a + i, n), x, total[r]);
      });
  for (int r = 0; r < 4; ++r) out[r * ld_out] = sum(total[r]);
}

// out[r, c] = a[r] . b[c]: a [rows, count], b [columns, count]
inline void products(const float* a, int rows, const float* b, int columns, int count, float* out) {
  for (int c = 0; c < columns; ++c) {
    const float* column = b + static_cast<int64_t>(c) * count;
    int r = 0;
    for (; r + 4 <= rows; r += 4)
      dot_four(a + static_cast<int64_t>(r) * count, count, column, count, out + static_cast<int64_t>(r) * columns + c, columns);
    for (; r < rows; ++r) out[static_cast<int64_t>(r) * columns + c] = dot(a + static_cast<int64_t>(r) * count, column, count);
  }
}

inline void load_chunk(const DeltaCall& call, int first, DeltaChunk& chunk) {
  const float query_factor = 1.0f / sqrtf(static_cast<float>(call.key_dim));
  float total = 0;
  for (int i = 0; i < chunk.rows; ++i) {
    l2_normalise(call.q + (first + i) * call.ld, call.key_dim, query_factor, chunk.q + i * call.key_dim);
    l2_normalise(call.k + (first + i) * call.ld, call.key_dim, 1.0f, chunk.k + i * call.key_dim);
    total += call.log_decay[first + i];
    chunk.summed[i] = total;
  }
}

// u and o from the state before the chunk, row after row: the triangular system by forward substitution.
inline void solve_chunk(const DeltaCall& call, int first, const DeltaChunk& chunk) {
  const int width = call.value_dim;
  products(chunk.k, chunk.rows, call.state, width, call.key_dim, chunk.u);
  products(chunk.q, chunk.rows, call.state, width, call.key_dim, chunk.o);
  products(chunk.k, chunk.rows, chunk.k, chunk.rows, call.key_dim, chunk.kk);
  products(chunk.q, chunk.rows, chunk.k, chunk.rows, call.key_dim, chunk.qk);
  for (int i = 0; i < chunk.rows; ++i) {
    float *u = chunk.u + i * width, *o = chunk.o + i * width;
    const float* v = call.v + (first + i) * call.ld;
    const float decay = expf(chunk.summed[i]), beta = call.beta[first + i];
    for (int c = 0; c < width; ++c) {
      u[c] = v[c] - decay * u[c];
      o[c] = decay * o[c];
    }
    for (int j = 0; j < i; ++j) {
      const float factor = expf(chunk.summed[i] - chunk.summed[j]);
      add_scaled(-factor * chunk.kk[i * chunk.rows + j], chunk.u + j * width, width, u);
      add_scaled(factor * chunk.qk[i * chunk.rows + j], chunk.u + j * width, width, o);
    }
    for (int c = 0; c < width; ++c) u[c] *= beta;
    add_scaled(chunk.qk[i * chunk.rows + i], u, width, o);
  }
}

inline void advance_state(const DeltaCall& call, const DeltaChunk& chunk) {
  const float last = chunk.summed[chunk.rows - 1];
  const Vec decay = set(expf(last));
  for (int i = 0; i < chunk.rows; ++i) {  // u becomes e^(G_last - G_i) u
    const float factor = expf(last - chunk.summed[i]);
    for (int c = 0; c < call.value_dim; ++c) chunk.u[i * call.value_dim + c] *= factor;
  }
  for (int c = 0; c < call.value_dim; ++c) {
    float* column = call.state + static_cast<int64_t>(c) * call.key_dim;
    const auto step = [&](Vec s, auto&& key) {
      s = s * decay;
      for (int i = 0; i < chunk.rows; ++i) s = fma(set(chunk.u[i * call.value_dim + c]), key(chunk.k + i * call.key_dim), s);
      return s;
    };
    for_lanes(
        call.key_dim, [&](int64_t i) { store(column + i, step(load(column + i), [=](const float* k) { return load(k + i); })); },
        [&](int64_t i, int n) {
          store(column + i, step(load(column + i, n), [=](const float* k) { return load(k + i, n); }), n);
        });
  }
}

inline void delta_chunked(const DeltaCall& call) {
  constexpr int64_t kRows = kDeltaChunk;
  DeltaChunk chunk{};
  chunk.q = call.scratch;
  chunk.k = chunk.q + kRows * call.key_dim;
  chunk.u = chunk.k + kRows * call.key_dim;
  chunk.o = chunk.u + kRows * call.value_dim;
  chunk.kk = chunk.o + kRows * call.value_dim;
  chunk.qk = chunk.kk + kRows * kRows;
  chunk.summed = chunk.qk + kRows * kRows;
  for (int first = 0; first < call.rows; first += chunk.rows) {
    const int left = call.rows - first, room = kDeltaChunk - (call.position + first) % kDeltaChunk;
    chunk.rows = left < room ? left : room;
    load_chunk(call, first, chunk);
    solve_chunk(call, first, chunk);
    for (int i = 0; i < chunk.rows; ++i) gated_norm(call, chunk.o + i * call.value_dim, first + i);
    advance_state(call, chunk);
  }
}

}  // namespace
}  // namespace paceline::ops::cpu
