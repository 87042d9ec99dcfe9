// What a rank keeps between steps (caches of the slots) and what it needs during one (scratch).
#pragma once

#include <memory>
#include <vector>

#include "model/config.h"
#include "ops/ops.h"

namespace paceline::model {

struct Capacity {
  int slots = 1;    // sequences at once
  int context = 2;  // positions a slot can hold
  int rows = 1;     // rows of the widest step, at least `slots`
};

struct StateBytes {
  size_t kv_cache = 0;
  size_t recurrent = 0;  // DeltaNet and convolution states
  size_t scratch = 0;    // without the communicator's buffers
};

// What State and Scratch of one rank will allocate.
StateBytes state_bytes(const ModelConfig& config, const Shard& shard, const Capacity& capacity);

class State {
 public:
  State(const ModelConfig& config, const Shard& shard, const Capacity& capacity, ops::Ops& ops);

  const ops::KvCache& kv(int layer) const { return kv_.at(static_cast<size_t>(layer)); }  // of a full-attention layer
  const ops::DeltaNetState& linear(int layer) const { return linear_.at(static_cast<size_t>(layer)); }  // of a linear layer
  const float* rope() const { return static_cast<const float*>(rope_->data()); }  // [context, rotary_dim]: cos, then sin

 private:
  std::vector<ops::KvCache> kv_;            // [layers], empty where the layer is linear
  std::vector<ops::DeltaNetState> linear_;  // [layers], empty where the layer is not
  std::vector<std::unique_ptr<ops::Buffer>> buffers_;
  std::unique_ptr<ops::Buffer> rope_;
};

struct Scratch {
  Scratch(const ModelConfig& config, const Shard& shard, const Capacity& capacity, ops::Ops& ops);

  int32_t* rows;     // [3 * capacity.rows + slots]: slots, positions, tokens, then the rows whose logits are wanted
  float* hidden;     // [rows, hidden_size]: the residual stream
  uint16_t* normed;  // [rows, hidden_size] bfloat16: input of the column-parallel products
  float* wide;       // [rows, widest]: outputs of the column-parallel products
  uint16_t* narrow;  // [rows, narrowest]: bfloat16 inputs of the row-parallel products
  float* picked;     // [slots, hidden_size]: rows whose logits are wanted
  float* logits;     // [slots, vocab_rows]
  float* best;       // [2, slots]: largest logits of this rank's vocabulary rows, then their rows as int32

 private:
  std::vector<std::unique_ptr<ops::Buffer>> buffers_;
};

}  // namespace paceline::model
