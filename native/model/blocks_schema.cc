// Names and shapes of the blocks' tensors.
#include <string>

#include "model/blocks.h"

namespace paceline::model {
namespace {

std::string name_of(int layer, const char* tensor) { return "layers." + std::to_string(layer) + "." + tensor; }

TensorSpec matrix(int layer, const char* tensor, std::vector<int64_t> part_rows, int64_t cols) {
  return {name_of(layer, tensor), TensorKind::kMatrix, std::move(part_rows), cols};
}

TensorSpec vector(int layer, const char* tensor, int64_t size, int64_t cols = 0) {
  return {name_of(layer, tensor), TensorKind::kVector, {size}, cols};
}

}  // namespace

void list_attention(const ModelConfig& c, const Shard& shard, int layer, bool gated, std::vector<TensorSpec>& tensors) {
  const int64_t heads = int64_t{shard.heads} * c.head_dim;
  const int64_t kv = int64_t{shard.kv_heads} * c.head_dim;
  tensors.push_back(vector(layer, "input_norm", c.hidden_size));
  tensors.push_back(matrix(layer, "qkv", {gated ? 2 * heads : heads, kv, kv}, c.hidden_size));
  tensors.push_back(vector(layer, "q_norm", c.head_dim));
  tensors.push_back(vector(layer, "k_norm", c.head_dim));
  tensors.push_back(matrix(layer, "o", {c.hidden_size}, heads));
}

void list_delta_net(const ModelConfig& c, const Shard& shard, int layer, std::vector<TensorSpec>& tensors) {
  const ops::DeltaNetShape& linear = shard.linear;
  const int64_t keys = int64_t{linear.key_heads} * linear.key_dim;
  const int64_t values = int64_t{linear.value_heads} * linear.value_dim;
  tensors.push_back(vector(layer, "input_norm", c.hidden_size));
  tensors.push_back(matrix(layer, "in_qkv", {keys, keys, values}, c.hidden_size));
  tensors.push_back(matrix(layer, "in_z", {values}, c.hidden_size));
  tensors.push_back(matrix(layer, "in_ba", {linear.value_heads, linear.value_heads}, c.hidden_size));
  tensors.push_back(vector(layer, "conv", linear.channels(), linear.kernel));
  tensors.push_back(vector(layer, "dt_bias", linear.value_heads));
  tensors.push_back(vector(layer, "a_log", linear.value_heads));
  tensors.push_back(vector(layer, "linear_norm", linear.value_dim));
  tensors.push_back(matrix(layer, "out", {c.hidden_size}, values));
}

void list_mlp(const ModelConfig& c, const Shard& shard, int layer, std::vector<TensorSpec>& tensors) {
  tensors.push_back(vector(layer, "post_norm", c.hidden_size));
  tensors.push_back(matrix(layer, "gate_up", {shard.intermediate, shard.intermediate}, c.hidden_size));
  tensors.push_back(matrix(layer, "down", {c.hidden_size}, shard.intermediate));
}

AttentionWeights find_attention(const WeightStore& store, int layer, bool gated) {
  return {
      .input_norm = store.vector(name_of(layer, "input_norm")),
      .qkv = store.matrix(name_of(layer, "qkv")),
      .o = store.matrix(name_of(layer, "o")),
      .q_norm = store.vector(name_of(layer, "q_norm")),
      .k_norm = store.vector(name_of(layer, "k_norm")),
      .gated = gated,
  };
}

DeltaNetWeights find_delta_net(const WeightStore& store, int layer) {
  return {
      .input_norm = store.vector(name_of(layer, "input_norm")),
      .in_qkv = store.matrix(name_of(layer, "in_qkv")),
      .in_z = store.matrix(name_of(layer, "in_z")),
      .in_ba = store.matrix(name_of(layer, "in_ba")),
      .out = store.matrix(name_of(layer, "out")),
      .conv = store.vector(name_of(layer, "conv")),
      .dt_bias = store.vector(name_of(layer, "dt_bias")),
      .a_log = store.vector(name_of(layer, "a_log")),
      .norm = store.vector(name_of(layer, "linear_norm")),
  };
}

MlpWeights find_mlp(const WeightStore& store, int layer) {
  return {
      .norm = store.vector(name_of(layer, "post_norm")),
      .gate_up = store.matrix(name_of(layer, "gate_up")),
      .down = store.matrix(name_of(layer, "down")),
  };
}

}  // namespace paceline::model
