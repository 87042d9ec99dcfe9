#include "model/config.h"

#include <algorithm>

#include "base/error.h"

namespace paceline::model {
namespace {

[[noreturn]] void refuse(const char* field, const std::string& value, const std::string& allowed) {
  throw ConfigError(concat(field, " = ", value, " cannot be served: ", allowed));
}

void require_positive(const char* field, int value) {
  if (value < 1) refuse(field, std::to_string(value), "it must be at least 1");
}

void require_multiple(const char* field, int value, const char* of_field, int of) {
  if (value % of != 0) refuse(field, std::to_string(value), concat("it must be a multiple of ", of_field, " = ", of));
}

void validate_attention(const ModelConfig& c) {
  require_positive("num_heads", c.num_heads);
  require_positive("num_kv_heads", c.num_kv_heads);
  require_positive("head_dim", c.head_dim);
  require_multiple("num_heads", c.num_heads, "num_kv_heads", c.num_kv_heads);
  if (c.rotary_dim < 2 || c.rotary_dim > c.head_dim || c.rotary_dim % 2 != 0) {
    refuse("rotary_dim", std::to_string(c.rotary_dim), concat("it must be even and within 2 .. head_dim = ", c.head_dim));
  }
  if (!(c.rope_theta > 0)) refuse("rope_theta", concat(c.rope_theta), "it must be positive");
}

void validate_linear(const ModelConfig& c) {
  require_positive("linear_num_key_heads", c.linear_num_key_heads);
  require_positive("linear_num_value_heads", c.linear_num_value_heads);
  require_positive("linear_key_head_dim", c.linear_key_head_dim);
  require_positive("linear_value_head_dim", c.linear_value_head_dim);
  if (c.linear_conv_kernel < 2) refuse("linear_conv_kernel", std::to_string(c.linear_conv_kernel), "it must be at least 2");
  require_multiple("linear_num_value_heads", c.linear_num_value_heads, "linear_num_key_heads", c.linear_num_key_heads);
}

// Each rank gets the same whole number of them.
int split(const char* field, int count, int ranks) {
  if (count % ranks != 0) {
    refuse("tp", std::to_string(ranks), concat("it must divide ", field, " = ", count));
  }
  return count / ranks;
}

// Fewer KV heads than ranks are replicated: rank r takes head r * num_kv_heads / ranks.
int split_kv_heads(const ModelConfig& c, int ranks) {
  if (c.num_kv_heads >= ranks) return split("num_kv_heads", c.num_kv_heads, ranks);
  if (ranks % c.num_kv_heads != 0) {
    refuse("tp", std::to_string(ranks), concat("beyond num_kv_heads = ", c.num_kv_heads, " it must be a multiple of it"));
  }
  return 1;
}

}  // namespace

int ModelConfig::count(LayerType type) const { return static_cast<int>(std::count(layers.begin(), layers.end(), type)); }

void validate(const ModelConfig& c) {
  require_positive("vocab_size", c.vocab_size);
  require_positive("hidden_size", c.hidden_size);
  require_positive("intermediate_size", c.intermediate_size);
  require_positive("num_layers", c.num_layers());
  if (!(c.rms_norm_eps > 0)) refuse("rms_norm_eps", concat(c.rms_norm_eps), "it must be positive");
  validate_attention(c);
  if (c.count(LayerType::kLinearAttention) > 0) validate_linear(c);
}

Shard make_shard(const ModelConfig& c, int rank, int ranks) {
  Shard shard;
  shard.rank = rank;
  shard.ranks = ranks;
  shard.heads = split("num_heads", c.num_heads, ranks);
  shard.kv_heads = split_kv_heads(c, ranks);
  shard.intermediate = split("intermediate_size", c.intermediate_size, ranks);
  const int block = (c.vocab_size + ranks - 1) / ranks;
  shard.vocab_begin = std::min(rank * block, c.vocab_size);
  shard.vocab_rows = std::min((rank + 1) * block, c.vocab_size) - shard.vocab_begin;
  if (c.count(LayerType::kLinearAttention) > 0) {
    shard.linear.key_heads = split("linear_num_key_heads", c.linear_num_key_heads, ranks);
    shard.linear.value_heads = split("linear_num_value_heads", c.linear_num_value_heads, ranks);
    shard.linear.key_dim = c.linear_key_head_dim;
    shard.linear.value_dim = c.linear_value_head_dim;
    shard.linear.kernel = c.linear_conv_kernel;
  }
  return shard;
}

}  // namespace paceline::model
