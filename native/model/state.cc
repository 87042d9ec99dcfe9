#include "model/state.h"

#include <algorithm>
#include <cmath>

namespace paceline::model {
namespace {

size_t product(std::initializer_list<int64_t> factors) {
  size_t result = 1;
  for (const int64_t factor : factors) result *= static_cast<size_t>(factor);
  return result;
}

size_t kv_bytes(const ModelConfig& c, const Shard& shard, const Capacity& capacity) {  // keys or values of one layer
  return product({capacity.slots, shard.kv_heads, capacity.context, c.head_dim}) * sizeof(uint16_t);
}

size_t recurrent_bytes(const Shard& shard, const Capacity& capacity) {  // one layer
  const ops::DeltaNetShape& linear = shard.linear;
  return product({capacity.slots, linear.value_heads, linear.value_dim, linear.key_dim}) * sizeof(float);
}

size_t conv_bytes(const Shard& shard, const Capacity& capacity) {  // one layer
  return product({capacity.slots, shard.linear.kernel - 1, shard.linear.channels()}) * sizeof(float);
}

size_t rope_bytes(const ModelConfig& c, const Capacity& capacity) {
  return product({capacity.context, c.rotary_dim}) * sizeof(float);
}

struct ScratchBytes {
  size_t rows, hidden, normed, wide, narrow, picked, logits, best;
  size_t sum() const { return rows + hidden + normed + wide + narrow + picked + logits + best; }
};

ScratchBytes scratch_bytes(const ModelConfig& c, const Shard& shard, const Capacity& capacity) {
  const int64_t heads = int64_t{shard.heads} * c.head_dim;
  const int64_t values = int64_t{shard.linear.value_heads} * shard.linear.value_dim;
  const int64_t attention = 2 * heads + 2 * int64_t{shard.kv_heads} * c.head_dim;  // queries with their gates, keys, values
  const int64_t delta_net = shard.linear.channels() + values + 2 * int64_t{shard.linear.value_heads};
  const int64_t wide = std::max({attention, delta_net, 2 * int64_t{shard.intermediate}});
  const int64_t narrow = std::max({heads, values, int64_t{shard.intermediate}});
  return {
      .rows = (product({3, capacity.rows}) + product({capacity.slots})) * sizeof(int32_t),
      .hidden = product({capacity.rows, c.hidden_size}) * sizeof(float),
      .normed = product({capacity.rows, c.hidden_size}) * sizeof(uint16_t),
      .wide = product({capacity.rows, wide}) * sizeof(float),
      .narrow = product({capacity.rows, narrow}) * sizeof(uint16_t),
      .picked = product({capacity.slots, c.hidden_size}) * sizeof(float),
      .logits = product({capacity.slots, std::max(shard.vocab_rows, 1)}) * sizeof(float),
      .best = product({2, capacity.slots}) * sizeof(float),
  };
}

// cos and sin of position * theta^(-2i / rotary_dim), in float32 throughout, as the reference computes them.
std::vector<float> rope_table(const ModelConfig& c, int context) {
  const int half = c.rotary_dim / 2;
  std::vector<float> table(static_cast<size_t>(context) * static_cast<size_t>(c.rotary_dim));
  for (int i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(c.rotary_dim);
    const float frequency = 1.0f / std::pow(static_cast<float>(c.rope_theta), exponent);
    for (int position = 0; position < context; ++position) {
      float* row = table.data() + static_cast<size_t>(position) * static_cast<size_t>(c.rotary_dim);
      const float angle = static_cast<float>(position) * frequency;
      row[i] = std::cos(angle);
      row[half + i] = std::sin(angle);
    }
  }
  return table;
}

}  // namespace

StateBytes state_bytes(const ModelConfig& c, const Shard& shard, const Capacity& capacity) {
  StateBytes bytes;
  bytes.kv_cache = 2 * kv_bytes(c, shard, capacity) * static_cast<size_t>(c.count(LayerType::kFullAttention));
  const int linear = c.count(LayerType::kLinearAttention);
  if (linear > 0)
    bytes.recurrent = (recurrent_bytes(shard, capacity) + conv_bytes(shard, capacity)) * static_cast<size_t>(linear);
  bytes.scratch = scratch_bytes(c, shard, capacity).sum() + rope_bytes(c, capacity);
  return bytes;
}

State::State(const ModelConfig& c, const Shard& shard, const Capacity& capacity, ops::Ops& ops)
    : kv_(c.layers.size()), linear_(c.layers.size()) {
  const auto keep = [&](size_t bytes) {
    buffers_.push_back(ops.allocate(bytes));
    return buffers_.back()->data();
  };
  for (size_t layer = 0; layer < c.layers.size(); ++layer) {
    if (c.layers[layer] == LayerType::kFullAttention) {
      const size_t bytes = kv_bytes(c, shard, capacity);
      auto* key = static_cast<uint16_t*>(keep(bytes));
      auto* value = static_cast<uint16_t*>(keep(bytes));
      kv_[layer] = {key, value, shard.kv_heads, capacity.context, c.head_dim};
    } else {
      auto* recurrent = static_cast<float*>(keep(recurrent_bytes(shard, capacity)));
      auto* conv = static_cast<float*>(keep(conv_bytes(shard, capacity)));
      linear_[layer] = {recurrent, conv};
    }
  }
  const std::vector<float> table = rope_table(c, capacity.context);
  rope_ = ops.allocate(table.size() * sizeof(float));
  ops.upload(rope_->data(), table.data(), table.size() * sizeof(float));
}

Scratch::Scratch(const ModelConfig& c, const Shard& shard, const Capacity& capacity, ops::Ops& ops) {
  const ScratchBytes bytes = scratch_bytes(c, shard, capacity);
  const auto keep = [&](auto*& pointer, size_t size) {
    buffers_.push_back(ops.allocate(size));
    pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(buffers_.back()->data());
  };
  keep(rows, bytes.rows);
  keep(hidden, bytes.hidden);
  keep(normed, bytes.normed);
  keep(wide, bytes.wide);
  keep(narrow, bytes.narrow);
  keep(picked, bytes.picked);
  keep(logits, bytes.logits);
  keep(best, bytes.best);
}

}  // namespace paceline::model
