// Head norm, RoPE and attention of one row over one KV head.
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

// Dot products of one query with kPositions keys that stand `head_dim` apart.
template <int kPositions>
inline void score(const float* query, const uint16_t* keys, int head_dim, float* scores) {
  Vec total[kPositions];
  for (int p = 0; p < kPositions; ++p) total[p] = set(0.0f);
  for_lanes(
      head_dim,
      [&](int64_t i) {
        const Vec q = load(query + i);
        for (int p = 0; p < kPositions; ++p) total[p] = fma(q, load_bf16(keys + p * head_dim + i), total[p]);
      },
      [&](int64_t i, int n) {
        const Vec q = load(query + i, n);
        for (int p = 0; p < kPositions; ++p) total[p] = fma(q, load_bf16(keys + p * head_dim + i, n), total[p]);
      });
  for (int p = 0; p < kPositions; ++p) scores[p] = sum(total[p]);
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

// out[0 .. kVecs lanes) = sum over positions of weights[p] * values[p]
template <int kVecs>
inline void mix(const float* weights, const uint16_t* values, int head_dim, int count, float* out) {
  Vec total[kVecs];
  for (int j = 0; j < kVecs; ++j) total[j] = set(0.0f);
  for (int p = 0; p < count; ++p) {
    const Vec weight = set(weights[p]);
    const uint16_t* value = values + static_cast<int64_t>(p) * head_dim;
    for (int j = 0; j < kVecs; ++j) total[j] = fma(weight, load_bf16(value + j * kLanes), total[j]);
  }
  for (int j = 0; j < kVecs; ++j) store(out + j * kLanes, total[j]);
}

inline void mix_all(const float* weights, const uint16_t* values, int head_dim, int count, float* out) {
  int i = 0;
  for (; i + 8 * kLanes <= head_dim; i += 8 * kLanes) mix<8>(weights, values + i, head_dim, count, out + i);
  for (; i + 2 * kLanes <= head_dim; i += 2 * kLanes) mix<2>(weights, values + i, head_dim, count, out + i);
  for (; i + kLanes <= head_dim; i += kLanes) mix<1>(weights, values + i, head_dim, count, out + i);
  if (i == head_dim) return;
  Vec total = set(0.0f);
  for (int p = 0; p < count; ++p) {
    total = fma(set(weights[p]), load_bf16(values + static_cast<int64_t>(p) * head_dim + i, head_dim - i), total);
  }
  store(out + i, total, head_dim - i);
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

// One head over one split of `count` positions: scores, weights, mixture; merged into `running`.
inline void attend_split(const AttendCall& call, const float* query, int start, int count, float* weights, float* split_mixed,
                         Softmax& running, float* mixed) {
  const int dim = call.norm.head_dim;
  const uint16_t* keys = call.keys + static_cast<int64_t>(start) * dim;
  const uint16_t* values = call.values + static_cast<int64_t>(start) * dim;
  int p = 0;
  for (; p + 4 <= count; p += 4) score<4>(query, keys + static_cast<int64_t>(p) * dim, dim, weights + p);
  for (; p < count; ++p) score<1>(query, keys + static_cast<int64_t>(p) * dim, dim, weights + p);
  float top = -INFINITY;
  for (p = 0; p < count; ++p) top = weights[p] > top ? weights[p] : top;
  const float total = exponentiate(weights, count, top);
  mix_all(weights, values, dim, count, split_mixed);
  merge(running, mixed, top, total, split_mixed, dim);
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

inline void attend(const AttendCall& call) {
  const int dim = call.norm.head_dim;
  float* queries = call.scratch;
  float* mixed = queries + static_cast<int64_t>(call.heads) * dim;
  float* split_mixed = mixed + static_cast<int64_t>(call.heads) * dim;
  float* weights = split_mixed + dim;
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  for (int head = 0; head < call.heads; ++head) {
    float* query = queries + static_cast<int64_t>(head) * dim;
    norm_and_rotate(call.norm, call.queries + head * call.query_stride, query);
    for (int i = 0; i < dim; ++i) query[i] *= scale;
    for (int i = 0; i < dim; ++i) mixed[static_cast<int64_t>(head) * dim + i] = 0.0f;
  }
  constexpr int kMaxHeads = 64;
  Softmax running[kMaxHeads];  // the operation refuses larger groups
  for (int head = 0; head < call.heads; ++head) running[head] = {-INFINITY, 0.0f};
  for (int start = 0; start < call.length; start += kAttentionSplit) {  // keys of a split stay in the cache for all heads
    const int count = call.length - start < kAttentionSplit ? call.length - start : kAttentionSplit;
    for (int head = 0; head < call.heads; ++head) {
      const int64_t offset = static_cast<int64_t>(head) * dim;
      attend_split(call, queries + offset, start, count, weights, split_mixed, running[head], mixed + offset);
    }
  }
  for (int head = 0; head < call.heads; ++head) {
    const int64_t offset = static_cast<int64_t>(head) * dim;
    finish(mixed + offset, running[head].total, call.gate ? call.gate + head * call.query_stride : nullptr, dim,
           call.out + offset);
  }
}

}  // namespace
}  // namespace paceline::ops::cpu
