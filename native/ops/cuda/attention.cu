// Attention of a step's rows: (1) head norms, RoPE, and the store of keys and values; (2) a block a row and query head attends
// over the row's own slot, in splits of 256 positions that are joined in ascending order.
#include "ops/cuda/attention.h"

namespace paceline::ops::cuda {
namespace {

constexpr int kSplit = 256;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kMaxHeadDim = 256;

// One warp a head. Heads 0 .. heads - 1 are queries, then keys, then values.
__global__ void prepare(const __grid_constant__ AttentionJob job) {
  let_next_start();
  wait_for_inputs();
  const AttentionInput& in = job.in;
  const int dim = job.cache.head_dim, row = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x);
  int head = static_cast<int>(blockIdx.x);
  const int kv_heads = job.cache.kv_heads, position = job.rows.position[row];
  const float* source = in.qkv + static_cast<size_t>(row) * in.ld;
  const int query_width = in.gated ? 2 * dim : dim;
  enum { kQuery, kKey, kValue } kind = kQuery;
  if (head < in.heads) {
    source += static_cast<size_t>(head) * query_width;
  } else {
    head -= in.heads;
    kind = head < kv_heads ? kKey : kValue;
    source += static_cast<size_t>(in.heads) * query_width + static_cast<size_t>(head) * dim;
    if (kind == kValue) head -= kv_heads;
  }
  const size_t at = ((static_cast<size_t>(job.rows.slot[row]) * kv_heads + head) * job.cache.context + position) * dim;
  if (kind == kValue) {
    for (int i = lane; i < dim; i += 32) job.cache.value[at + i] = narrow(source[i]);
    return;
  }
  __shared__ float normed[kMaxHeadDim];
  const float* weight = kind == kQuery ? in.q_norm : in.k_norm;
  float squares = 0;
  for (int i = lane; i < dim; i += 32) squares = fmaf(source[i], source[i], squares);
  const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(dim) + in.eps);
  for (int i = lane; i < dim; i += 32) normed[i] = source[i] * factor * weight[i];
  __syncwarp();
  const float* angle = in.rope + static_cast<size_t>(position) * in.rotary_dim;
  const int half = in.rotary_dim / 2;
  for (int i = lane; i < dim; i += 32) {
    float value = normed[i];
    if (i < half) {
      value = value * angle[i] - normed[i + half] * angle[half + i];
    } else if (i < in.rotary_dim) {
      value = value * angle[i - half] + normed[i - half] * angle[i];
    }
    if (kind == kQuery) {
      job.query[(static_cast<size_t>(row) * in.heads + head) * dim + i] = value;
    } else {
      job.cache.key[at + i] = narrow(value);
    }
  }
}

// Dot products of the query with `count` keys. kLanes > 0: head_dim = 8 * kLanes, so many lanes share a key and read 16 bytes
// each.
template <int kLanes>
__device__ void score(const float* query, const uint16_t* keys, int count, int, float* scores) {
  constexpr int kKeys = 32 / kLanes;  // of a warp at a time
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane % kLanes;
  float q[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) q[i] = query[part * 8 + i];
#pragma unroll 4
  for (int base = warp * kKeys; base < count; base += kWarps * kKeys) {
    const int p = base + lane / kLanes;
    uint4 key = make_uint4(0, 0, 0, 0);
    if (p < count) key = *reinterpret_cast<const uint4*>(keys + static_cast<size_t>(p) * (8 * kLanes) + part * 8);
    const uint32_t words[4] = {key.x, key.y, key.z, key.w};
    float dot = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      dot = fmaf(q[2 * i], __uint_as_float(words[i] << 16), dot);
      dot = fmaf(q[2 * i + 1], __uint_as_float(words[i] & 0xffff0000u), dot);
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, offset);
    if (part == 0 && p < count) scores[p] = dot;
  }
}

template <>
__device__ void score<0>(const float* query, const uint16_t* keys, int count, int dim, float* scores) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int p = warp; p < count; p += kWarps) {
    const uint16_t* key = keys + static_cast<size_t>(p) * dim;
    float dot = 0;
    for (int i = lane; i < dim; i += 32) dot = fmaf(query[i], widen(key[i]), dot);
    dot = warp_sum(dot);
    if (lane == 0) scores[p] = dot;
  }
}

__device__ float block_max(float value, float* scratch) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) value = fmaxf(value, scratch[i]);
  return value;
}

template <int kLanes>
__global__ void __launch_bounds__(kThreads) attend(const __grid_constant__ AttentionJob job) {
  __shared__ float query[kMaxHeadDim];
  __shared__ float weight[kSplit];
  __shared__ float scratch[32];
  let_next_start();
  wait_for_inputs();
  const int dim = job.cache.head_dim, row = static_cast<int>(blockIdx.y), head = static_cast<int>(blockIdx.x);
  const int kv_head = head / (job.in.heads / job.cache.kv_heads), length = job.rows.position[row] + 1;
  const size_t base = (static_cast<size_t>(job.rows.slot[row]) * job.cache.kv_heads + kv_head) * job.cache.context * dim;
  const uint16_t* keys = job.cache.key + base;
  const uint16_t* values = job.cache.value + base;
  const float scale = rsqrtf(static_cast<float>(dim));
  const float* source = job.query + (static_cast<size_t>(row) * job.in.heads + head) * dim;
  for (int i = threadIdx.x; i < dim; i += kThreads) query[i] = source[i] * scale;
  __syncthreads();

  constexpr int kPerThread = kMaxHeadDim / kThreads;
  float out[kPerThread] = {};
  float best = -INFINITY, sum = 0;
  for (int begin = 0; begin < length; begin += kSplit) {
    const int count = min(kSplit, length - begin);
    score<kLanes>(query, keys + static_cast<size_t>(begin) * dim, count, dim, weight);
    __syncthreads();
    float largest = -INFINITY;
    for (int p = threadIdx.x; p < count; p += kThreads) largest = fmaxf(largest, weight[p]);
    const float next = fmaxf(best, block_max(largest, scratch));
    float part = 0;
    for (int p = threadIdx.x; p < count; p += kThreads) {
      const float e = expf(weight[p] - next);
      weight[p] = e;
      part += e;
    }
    part = block_sum(part, scratch);  // a barrier, too: all weights are there
    const float decay = expf(best - next);
    sum = fmaf(sum, decay, part);
    best = next;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * kThreads;
      if (i >= dim) break;
      const uint16_t* value = values + static_cast<size_t>(begin) * dim + i;
      float mixed = 0;
#pragma unroll 8
      for (int p = 0; p < count; ++p) mixed = fmaf(weight[p], widen(value[static_cast<size_t>(p) * dim]), mixed);
      out[j] = fmaf(out[j], decay, mixed);
    }
    __syncthreads();
  }
  const float* gates = job.in.qkv + static_cast<size_t>(row) * job.in.ld + static_cast<size_t>(head) * 2 * dim + dim;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int i = static_cast<int>(threadIdx.x) + j * kThreads;
    if (i >= dim) break;
    float value = out[j] / sum;
    if (job.in.gated) value *= sigmoid(gates[i]);
    job.out[(static_cast<size_t>(row) * job.in.heads + head) * dim + i] = narrow(value);
  }
}

}  // namespace

bool attention_fits(int head_dim) { return head_dim <= kMaxHeadDim; }

void run_attention(const Launch& where, const AttentionJob& job) {
  const auto rows = static_cast<unsigned>(job.rows.count);
  const auto heads = static_cast<unsigned>(job.in.heads + 2 * job.cache.kv_heads);
  launch(where, prepare, dim3(heads, rows), dim3(32), 0, job);
  const auto start = [&](auto kernel) {
    launch(where, kernel, dim3(static_cast<unsigned>(job.in.heads), rows), dim3(kThreads), 0, job);
  };
  switch (job.cache.head_dim) {
    case 32:
      return start(attend<4>);
    case 64:
      return start(attend<8>);
    case 128:
      return start(attend<16>);
    case 256:
      return start(attend<32>);
    default:
      return start(attend<0>);
  }
}

}  // namespace paceline::ops::cuda
