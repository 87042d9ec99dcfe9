// The blocks that the families are made of. Each reads the residual stream of a step's rows and adds its output to it.
#pragma once

#include "model/config.h"
#include "model/state.h"
#include "model/weights.h"
#include "ops/ops.h"
#include "parallel/communicator.h"

namespace paceline::model {

struct Context {  // what the blocks of one rank work with; outlives them
  const ModelConfig& config;
  const Shard& shard;
  ops::Ops& ops;
  parallel::Communicator& communicator;
  const State& state;
  const Scratch& scratch;
};

struct StepRows {
  ops::Rows all;
  int chunked;  // the first so many belong to long prompts: the chunked form of DeltaNet serves them
};

struct AttentionWeights {
  const float* input_norm;  // [hidden_size]
  const ops::Linear* qkv;   // [(gated ? 2 : 1) * heads * head_dim + 2 * kv_heads * head_dim, hidden_size]
  const ops::Linear* o;     // [hidden_size, heads * head_dim]
  const float* q_norm;      // [head_dim]
  const float* k_norm;      // [head_dim]
  bool gated;
};

struct DeltaNetWeights {
  const float* input_norm;    // [hidden_size]
  const ops::Linear* in_qkv;  // [channels, hidden_size]
  const ops::Linear* in_z;    // [value_heads * value_dim, hidden_size]
  const ops::Linear* in_ba;   // [2 * value_heads, hidden_size]: b, then a
  const ops::Linear* out;     // [hidden_size, value_heads * value_dim]
  const float* conv;          // [channels, kernel]
  const float* dt_bias;       // [value_heads]
  const float* a_log;         // [value_heads]
  const float* norm;          // [value_dim]
};

struct MlpWeights {
  const float* norm;           // [hidden_size]
  const ops::Linear* gate_up;  // [2 * intermediate, hidden_size]
  const ops::Linear* down;     // [hidden_size, intermediate]
};

// The tensors of a block of one layer, as a rank's schema names them, and the weights of that block once they are loaded.
void list_attention(const ModelConfig& config, const Shard& shard, int layer, bool gated, std::vector<TensorSpec>& tensors);
void list_delta_net(const ModelConfig& config, const Shard& shard, int layer, std::vector<TensorSpec>& tensors);
void list_mlp(const ModelConfig& config, const Shard& shard, int layer, std::vector<TensorSpec>& tensors);
AttentionWeights find_attention(const WeightStore& store, int layer, bool gated);
DeltaNetWeights find_delta_net(const WeightStore& store, int layer);
MlpWeights find_mlp(const WeightStore& store, int layer);

void run_attention(const Context& context, const StepRows& rows, int layer, const AttentionWeights& weights);
void run_delta_net(const Context& context, const StepRows& rows, int layer, const DeltaNetWeights& weights);
void run_mlp(const Context& context, const StepRows& rows, const MlpWeights& weights);

}  // namespace paceline::model
