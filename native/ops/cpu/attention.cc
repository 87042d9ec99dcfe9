// Head norms, RoPE, the store into the cache, causal attention in splits of 256 positions, the output gate.
#include "base/error.h"
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {
namespace {

constexpr int kBlockQueries =
    64;  // queries that go over a KV head together: enough to use each key often, few enough for the cache

void check_shape(const AttentionInput& in, const KvCache& cache) {
  check<ConfigError>(cache.kv_heads > 0 && in.heads % cache.kv_heads == 0, "heads is ", in.heads, ", must be a multiple of the ",
                     cache.kv_heads, " KV heads");
  check<ConfigError>(in.rotary_dim % 2 == 0 && in.rotary_dim <= cache.head_dim, "rotary_dim is ", in.rotary_dim,
                     ", must be even and at most the head_dim of ", cache.head_dim);
}

}  // namespace

void CpuOps::attention(const Rows& rows, const AttentionInput& in, const KvCache& cache, uint16_t* out) {
  check_shape(in, cache);
  const int64_t dim = cache.head_dim, query_stride = in.gated ? 2 * dim : dim;
  const int64_t keys_at = in.heads * query_stride, values_at = keys_at + cache.kv_heads * dim;
  const auto norm = [&](const float* weight, int64_t row) {
    return HeadNorm{weight, in.rope + static_cast<int64_t>(rows.position[row]) * in.rotary_dim, in.eps, cache.head_dim,
                    in.rotary_dim};
  };
  const auto cache_start = [&](int64_t row, int64_t head) {
    return (static_cast<int64_t>(rows.slot[row]) * cache.kv_heads + head) * cache.context * dim;
  };
  const int64_t items = static_cast<int64_t>(rows.count) * cache.kv_heads;
  // All keys and values of the step first: later rows of a prompt look at earlier ones.
  divide(items, 32, [&](int64_t first, int64_t last, int thread) {
    float* room = scratch(thread, dim);
    for (int64_t item = first; item < last; ++item) {
      const int64_t row = item / cache.kv_heads, head = item % cache.kv_heads;
      const int64_t at = cache_start(row, head) + rows.position[row] * dim;
      const float* input = in.qkv + row * in.ld;
      vector_.store_key_value(norm(in.k_norm, row), input + keys_at + head * dim, input + values_at + head * dim, cache.key + at,
                              cache.value + at, room);
    }
  });
  const int group = in.heads / cache.kv_heads;
  find_runs(rows, std::max(1, kBlockQueries / group));
  stride(static_cast<int64_t>(runs_.size()) * cache.kv_heads, [&](int64_t item, int thread) {
    const Run& run = runs_[item / cache.kv_heads];
    const int64_t head = item % cache.kv_heads;
    const float* queries = in.qkv + static_cast<int64_t>(run.first) * in.ld + head * group * query_stride;
    vector_.attend({.rows = run.count,
                    .position = run.position,
                    .heads = group,
                    .queries = queries,
                    .gate = in.gated ? queries + dim : nullptr,
                    .ld = in.ld,
                    .query_stride = query_stride,
                    .norm = norm(in.q_norm, run.first),
                    .keys = cache.key + cache_start(run.first, head),
                    .values = cache.value + cache_start(run.first, head),
                    .scratch = scratch(thread, attend_scratch(run.count * group, cache.head_dim)),
                    .out = out + (static_cast<int64_t>(run.first) * in.heads + head * group) * dim,
                    .ld_out = in.heads * dim});
  });
}

}  // namespace paceline::ops::cpu
