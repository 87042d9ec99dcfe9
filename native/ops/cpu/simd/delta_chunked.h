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

// out[r, c] = a[r] . b[c] for kTileRows rows of a and four of b, whose rows are `count` long.
inline void product_tile(const float* a, const float* b, int count, float* out, int64_t ld_out) {
  Vec total[4 * kTileRows];
  PACELINE_UNROLL
  for (int i = 0; i < 4 * kTileRows; ++i) total[i] = set(0.0f);
  const auto accumulate = [&](auto&& row) {
    Vec x[4];
    PACELINE_UNROLL
    for (int c = 0; c < 4; ++c) x[c] = row(b + c * count);
    PACELINE_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      const Vec y = row(a + r * count);
      PACELINE_UNROLL
      for (int c = 0; c < 4; ++c) total[4 * r + c] = fma(y, x[c], total[4 * r + c]);
    }
  };
  for_lanes(
      count, [&](int64_t i) { accumulate([=](const float* p) { return load(p + i); }); },
      [&](int64_t i, int n) { accumulate([=](const float* p) { return load(p + i, n); }); });
  tile_sums(total, out, ld_out);
}

// out[r, c] = a[r] . b[c]: a [rows, count], b [columns, count]. `lower`: only c <= r is wanted, the rest may stay undefined.
inline void products(const float* a, int rows, const float* b, int columns, int count, bool lower, float* out) {
  for (int r = 0; r < rows; r += kTileRows) {
    const int tile_rows = rows - r < kTileRows ? rows - r : kTileRows;
    const int wanted = lower && r + tile_rows < columns ? r + tile_rows : columns;
    const float* own = a + static_cast<int64_t>(r) * count;
    float* row = out + static_cast<int64_t>(r) * columns;
    int c = 0;
    if (tile_rows == kTileRows) {
      for (; c + 4 <= wanted; c += 4) product_tile(own, b + static_cast<int64_t>(c) * count, count, row + c, columns);
    }
    for (; c < wanted; ++c) {
      for (int i = 0; i < tile_rows; ++i) row[i * columns + c] = dot(own + i * count, b + static_cast<int64_t>(c) * count, count);
    }
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
  products(chunk.k, chunk.rows, call.state, width, call.key_dim, false, chunk.u);
  products(chunk.q, chunk.rows, call.state, width, call.key_dim, false, chunk.o);
  products(chunk.k, chunk.rows, chunk.k, chunk.rows, call.key_dim, true, chunk.kk);
  products(chunk.q, chunk.rows, chunk.k, chunk.rows, call.key_dim, true, chunk.qk);
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

// kColumns consecutive state columns take the whole chunk; chunk.u holds e^(G_last - G_i) u_i.
template <int kColumns>
inline void advance_columns(const DeltaCall& call, const DeltaChunk& chunk, int first, float decay) {
  float* state = call.state + static_cast<int64_t>(first) * call.key_dim;
  const auto advance = [&](auto&& get, auto&& put) {
    Vec column[kColumns];
    PACELINE_UNROLL
    for (int c = 0; c < kColumns; ++c) column[c] = get(state + c * call.key_dim) * set(decay);
    for (int i = 0; i < chunk.rows; ++i) {
      const Vec key = get(chunk.k + i * call.key_dim);
      const float* u = chunk.u + i * call.value_dim + first;
      PACELINE_UNROLL
      for (int c = 0; c < kColumns; ++c) column[c] = fma(set(u[c]), key, column[c]);
    }
    PACELINE_UNROLL
    for (int c = 0; c < kColumns; ++c) put(state + c * call.key_dim, column[c]);
  };
  for_lanes(
      call.key_dim,
      [&](int64_t i) { advance([=](const float* p) { return load(p + i); }, [=](float* p, Vec v) { store(p + i, v); }); },
      [&](int64_t i, int n) {
        advance([=](const float* p) { return load(p + i, n); }, [=](float* p, Vec v) { store(p + i, v, n); });
      });
}

inline void advance_state(const DeltaCall& call, const DeltaChunk& chunk) {
  const float last = chunk.summed[chunk.rows - 1], decay = expf(last);
  for (int i = 0; i < chunk.rows; ++i) {
    const float factor = expf(last - chunk.summed[i]);
    for (int c = 0; c < call.value_dim; ++c) chunk.u[i * call.value_dim + c] *= factor;
  }
  int c = 0;
  for (; c + 8 <= call.value_dim; c += 8) advance_columns<8>(call, chunk, c, decay);
  for (; c < call.value_dim; ++c) advance_columns<1>(call, chunk, c, decay);
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
