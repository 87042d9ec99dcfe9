// The dimensions of a model, and the part of it that one rank holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace paceline::model {

enum class LayerType : uint8_t { kFullAttention, kLinearAttention };

struct ModelConfig {   // of the whole model
  std::string family;  // "qwen3" or "qwen3_5"
  int vocab_size = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;  // leading dimensions of a head that rotate
  double rope_theta = 0;
  float rms_norm_eps = 0;
  std::vector<LayerType> layers;
  int linear_num_key_heads = 0;  // Gated DeltaNet, only with linear layers
  int linear_num_value_heads = 0;
  int linear_key_head_dim = 0;
  int linear_value_head_dim = 0;
  int linear_conv_kernel = 0;

  int num_layers() const { return static_cast<int>(layers.size()); }
  int count(LayerType type) const;
};

// Throws ConfigError naming the field, its value and what is allowed.
void validate(const ModelConfig& config);

struct Shard {  // what one rank holds
  int rank = 0;
  int ranks = 1;
  int heads = 0;
  int kv_heads = 0;
  int intermediate = 0;
  int vocab_begin = 0;  // its rows of the head: [vocab_begin, vocab_begin + vocab_rows)
  int vocab_rows = 0;   // 0 where the vocabulary has fewer blocks than ranks
  ops::DeltaNetShape linear = {};
};

// Throws ConfigError where a count of heads or the MLP cannot be split over `ranks`.
Shard make_shard(const ModelConfig& config, int rank, int ranks);

}  // namespace paceline::model
