// Head norm, RoPE and attention of some rows of one slot over one KV head.
#pragma once

#include <math.h>

namespace paceline::ops::cpu {
namespace {

// out[head_dim] = rope(rms_norm(x)); out may not overlap x.
inline void norm_and_rotate(const HeadNorm& norm, const float* x, float* out) {
  const Vec scale = set(1.0f / sqrtf(square_sum(x, norm.head_dim) / static_cast<float>(norm.head_dim) + norm.eps));
  for_lanes(
      norm.head_dim, [&](int64_t i) { store(out + i, load(x + i) * scale * load(norm.weight + i)); },
      [&](int64_t i, int n) { store(out + i, load(x + i, n) * scale * load(norm.weight + i, n), n); });
  const int half = norm.rotary_dim / 2;
  const float *cosine = norm.rope, *sine = norm.rope + half;
  float *low = out, *high = out + half;
  for_lanes(
      half,
      [&](int64_t i) {
        const Vec a = load(low + i), b = load(high + i), c = load(cosine + i), s = load(sine + i);
        store(low + i, fnma(b, s, a * c));
        store(high + i, fma(a, s, b * c));
      },
      [&](int64_t i, int n) {
        const Vec a = load(low + i, n), b = load(high + i, n), c = load(cosine + i, n), s = load(sine + i, n);
        store(low + i, fnma(b, s, a * c), n);
        store(high + i, fma(a, s, b * c), n);
      });
}

inline void store_key_value(const HeadNorm& norm, const float* key, const float* value, uint16_t* key_out, uint16_t* value_out,
                            float* scratch) {
  norm_and_rotate(norm, key, scratch);
  narrow_bf16(scratch, norm.head_dim, key_out);
  narrow_bf16(value, norm.head_dim, value_out);
}

// A tile of up to kTileRows queries against four consecutive keys: weights[row * kAttentionSplit + position].
template <int kRows>
inline void score_four(const float* queries, const uint16_t* keys, int head_dim, float* weights) {
  Vec total[4 * kTileRows];
  PACELINE_UNROLL
  for (int i = 0; i < 4 * kTileRows; ++i) total[i] = set(0.0f);
  const auto accumulate = [&](auto&& query, auto&& key) {
    Vec k[4];
    PACELINE_UNROLL
    for (int p = 0; p < 4; ++p) k[p] = key(keys + p * head_dim);
    PACELINE_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const Vec q = query(queries + row * head_dim);
      PACELINE_UNROLL
      for (int p = 0; p < 4; ++p) total[4 * row + p] = fma(q, k[p], total[4 * row + p]);
    }
  };
  for_lanes(
      head_dim,
      [&](int64_t i) {
        accumulate([=](const float* q) { return load(q + i); }, [=](const uint16_t* k) { return load_bf16(k + i); });
      },
      [&](int64_t i, int n) {
        accumulate([=](const float* q) { return load(q + i, n); }, [=](const uint16_t* k) { return load_bf16(k + i, n); });
      });
  float sums[kTileRows][4];
  tile_sums(total, &sums[0][0], 4);
  PACELINE_UNROLL
  for (int row = 0; row < kRows; ++row) {
    PACELINE_UNROLL
    for (int p = 0; p < 4; ++p) weights[row * kAttentionSplit + p] = sums[row][p];
  }
}

// One query against one key: the same sums in the same order.
inline float score_one(const float* query, const uint16_t* key, int head_dim) {
  Vec total = set(0.0f);
  for_lanes(
      head_dim, [&](int64_t i) { total = fma(load(query + i), load_bf16(key + i), total); },
      [&](int64_t i, int n) { total = fma(load(query + i, n), load_bf16(key + i, n), total); });
  return sum(total);
}

template <int kRows>
inline void score_tile(const float* queries, const uint16_t* keys, int head_dim, int count, float* weights) {
  int p = 0;
  for (; p + 4 <= count; p += 4) score_four<kRows>(queries, keys + static_cast<int64_t>(p) * head_dim, head_dim, weights + p);
  for (; p < count; ++p) {
    PACELINE_UNROLL
    for (int row = 0; row < kRows; ++row) {
      weights[row * kAttentionSplit + p] =
          score_one(queries + row * head_dim, keys + static_cast<int64_t>(p) * head_dim, head_dim);
    }
  }
}

// weights[i] = exp(weights[i] - top); returns their sum.
inline float exponentiate(float* weights, int count, float top) {
  Vec total = set(0.0f);
  for_lanes(
      count,
      [&](int64_t i) {
        const Vec e = exp(load(weights + i) - set(top));
        store(weights + i, e);
        total = total + e;
      },
      [&](int64_t i, int n) {
        const Vec e = exp(load(weights + i, n) - set(top));
        store(weights + i, e, n);
        for (int j = 0; j < n; ++j) total = total + load(weights + i + j, 1);
      });
  return sum(total);
}

// out[row] += the sum over positions first..last of weights[row][p] * values[p], for kVecs vectors of each of kRows rows.
template <int kRows, int kVecs>
inline void mix(const float* weights, const uint16_t* values, int head_dim, int first, int last, float* out) {
  Vec total[kRows][kVecs];
  PACELINE_UNROLL
  for (int row = 0; row < kRows; ++row) {
    PACELINE_UNROLL
    for (int j = 0; j < kVecs; ++j) total[row][j] = load(out + row * head_dim + j * kLanes);
  }
  for (int p = first; p < last; ++p) {
    const uint16_t* value = values + static_cast<int64_t>(p) * head_dim;
    Vec v[kVecs];
    PACELINE_UNROLL
    for (int j = 0; j < kVecs; ++j) v[j] = load_bf16(value + j * kLanes);
    PACELINE_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const Vec weight = set(weights[row * kAttentionSplit + p]);
      PACELINE_UNROLL
      for (int j = 0; j < kVecs; ++j) total[row][j] = fma(weight, v[j], total[row][j]);
    }
  }
  PACELINE_UNROLL
  for (int row = 0; row < kRows; ++row) {
    PACELINE_UNROLL
    for (int j = 0; j < kVecs; ++j) store(out + row * head_dim + j * kLanes, total[row][j]);
  }
}

template <int kRows>
inline void mix_all(const float* weights, const uint16_t* values, int head_dim, int first, int last, float* out) {
  int i = 0;
  for (; i + 4 * kLanes <= head_dim; i += 4 * kLanes) mix<kRows, 4>(weights, values + i, head_dim, first, last, out + i);
  for (; i + kLanes <= head_dim; i += kLanes) mix<kRows, 1>(weights, values + i, head_dim, first, last, out + i);
  if (i == head_dim) return;
  const int left = head_dim - i;
  PACELINE_UNROLL
  for (int row = 0; row < kRows; ++row) {
    Vec total = load(out + row * head_dim + i, left);
    for (int p = first; p < last; ++p) {
      const Vec value = load_bf16(values + static_cast<int64_t>(p) * head_dim + i, left);
      total = fma(set(weights[row * kAttentionSplit + p]), value, total);
    }
    store(out + row * head_dim + i, total, left);
  }
}

struct Softmax {  // running: over the splits so far
  float top, total;
};

// Takes the next split's result into the running one.
inline void merge(Softmax& running, float* mixed, float split_top, float split_total, const float* split_mixed, int head_dim) {
  const float top = split_top > running.top ? split_top : running.top;
  const float old_factor = running.total == 0.0f ? 0.0f : expf(running.top - top);
  const float new_factor = expf(split_top - top);
  running = {top, running.total * old_factor + split_total * new_factor};
  const Vec a = set(old_factor), b = set(new_factor);
  for_lanes(
      head_dim, [&](int64_t i) { store(mixed + i, fma(load(split_mixed + i), b, load(mixed + i) * a)); },
      [&](int64_t i, int n) { store(mixed + i, fma(load(split_mixed + i, n), b, load(mixed + i, n) * a), n); });
}

struct AttendRoom {    // the parts of the scratch
  float* queries;      // [rows * heads, head_dim]
  float* mixed;        // [rows * heads, head_dim]: running
  Softmax* running;    // [rows * heads]
  float* split_mixed;  // [kTileRows, head_dim]
  float* weights;      // [kTileRows, kAttentionSplit]
};

// Positions of the split that starts at `start` that query `index` sees: rows see one more each.
inline int seen(const AttendCall& call, int index, int start) {
  const int left = call.position + index / call.heads + 1 - start;
  return left < 0 ? 0 : left < kAttentionSplit ? left : kAttentionSplit;
}

// Queries index .. index + kRows over one split: scores, weights, mixture; merged into the running result. What a query gets does
// not depend on which others share its tile.
template <int kRows>
inline void attend_tile(const AttendCall& call, const AttendRoom& room, int index, int start) {
  const int dim = call.norm.head_dim;
  const uint16_t* keys = call.keys + static_cast<int64_t>(start) * dim;
  const uint16_t* values = call.values + static_cast<int64_t>(start) * dim;
  score_tile<kRows>(room.queries + static_cast<int64_t>(index) * dim, keys, dim, seen(call, index + kRows - 1, start),
                    room.weights);
  float top[kRows], total[kRows];
  PACELINE_UNROLL
  for (int row = 0; row < kRows; ++row) {
    float* weights = room.weights + row * kAttentionSplit;
    const int count = seen(call, index + row, start);
    top[row] = -INFINITY;
    for (int p = 0; p < count; ++p) top[row] = weights[p] > top[row] ? weights[p] : top[row];
    total[row] = exponentiate(weights, count, top[row]);
  }
  for (int64_t i = 0; i < static_cast<int64_t>(kRows) * dim; ++i) room.split_mixed[i] = 0.0f;
  const int shared = seen(call, index, start);  // the first query sees least
  mix_all<kRows>(room.weights, values, dim, 0, shared, room.split_mixed);
  PACELINE_UNROLL
  for (int row = 0; row < kRows; ++row) {
    const int count = seen(call, index + row, start);
    float* mixed = room.split_mixed + row * dim;
    if (count > shared) mix_all<1>(room.weights + row * kAttentionSplit, values, dim, shared, count, mixed);
    if (count > 0)
      merge(room.running[index + row], room.mixed + static_cast<int64_t>(index + row) * dim, top[row], total[row], mixed, dim);
  }
}

template <int kRows = kTileRows>
inline void attend_some(int rows, const AttendCall& call, const AttendRoom& room, int index, int start) {
  if (rows >= kRows) {
    attend_tile<kRows>(call, room, index, start);
  } else if constexpr (kRows > 1) {
    attend_some<kRows - 1>(rows, call, room, index, start);
  }
}

// out = bf16(mixed / total [* sigmoid(gate)])
inline void finish(const float* mixed, float total, const float* gate, int head_dim, uint16_t* out) {
  const Vec inverse = set(1.0f / total);
  for_lanes(
      head_dim,
      [&](int64_t i) {
        const Vec value = load(mixed + i) * inverse;
        store_bf16(out + i, gate ? value * sigmoid(load(gate + i)) : value);
      },
      [&](int64_t i, int n) {
        const Vec value = load(mixed + i, n) * inverse;
        store_bf16(out + i, gate ? value * sigmoid(load(gate + i, n)) : value, n);
      });
}

// The queries normalised, rotated and scaled; nothing mixed yet.
inline void start_queries(const AttendCall& call, const AttendRoom& room) {
  const int dim = call.norm.head_dim;
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  for (int row = 0; row < call.rows; ++row) {
    HeadNorm norm = call.norm;
    norm.rope += static_cast<int64_t>(row) * norm.rotary_dim;
    for (int head = 0; head < call.heads; ++head) {
      const int64_t index = static_cast<int64_t>(row) * call.heads + head;
      float *query = room.queries + index * dim, *mixed = room.mixed + index * dim;
      norm_and_rotate(norm, call.queries + row * call.ld + head * call.query_stride, query);
      for (int i = 0; i < dim; ++i) query[i] *= scale;
      for (int i = 0; i < dim; ++i) mixed[i] = 0.0f;
      room.running[index] = {-INFINITY, 0.0f};
    }
  }
}

inline void attend(const AttendCall& call) {
  const int dim = call.norm.head_dim, queries = call.rows * call.heads;
  AttendRoom room{};
  room.queries = call.scratch;
  room.mixed = room.queries + static_cast<int64_t>(queries) * dim;
  room.split_mixed = room.mixed + static_cast<int64_t>(queries) * dim;
  room.weights = room.split_mixed + static_cast<int64_t>(kTileRows) * dim;
  room.running = reinterpret_cast<Softmax*>(room.weights + kTileRows * kAttentionSplit);
  start_queries(call, room);
  for (int start = 0; start < call.position + call.rows; start += kAttentionSplit) {  // a split's keys stay in the cache for all
    for (int index = 0; index < queries; index += kTileRows) {
      if (seen(call, index + kTileRows < queries ? index + kTileRows - 1 : queries - 1, start) == 0) continue;
      attend_some(queries - index, call, room, index, start);
    }
  }
  for (int index = 0; index < queries; ++index) {
    const int64_t row = index / call.heads, head = index % call.heads;
    const float* gate = call.gate ? call.gate + row * call.ld + head * call.query_stride : nullptr;
    finish(room.mixed + static_cast<int64_t>(index) * dim, room.running[index].total, gate, dim,
           call.out + row * call.ld_out + head * dim);
  }
}

}  // namespace
}  // namespace paceline::ops::cpu
