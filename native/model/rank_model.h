// A model on one rank: its weights, its caches, and the forward pass over a step's rows. Used from the rank's own thread.
#pragma once

#include <memory>
#include <vector>

#include "model/config.h"
#include "model/family.h"
#include "model/state.h"
#include "model/step.h"
#include "model/weights.h"
#include "parallel/communicator.h"

namespace paceline::model {

constexpr int kMaxRecorded = 16;  // rows of the widest step that a backend is asked to record

struct Embedding {  // [vocab_size, hidden_size], shared by the ranks, kept alive by whoever gave it
  const void* table = nullptr;
  DType dtype = DType::kBF16;
};

// All tensors a rank must be given: its layers, "norm", and "head" where it has vocabulary rows. Without the embedding.
std::vector<TensorSpec> list_tensors(const ModelConfig& config, const Shard& shard);

class RankModel {
 public:
  // Allocates caches and scratch. `config` and `communicator` outlive the model.
  RankModel(const ModelConfig& config, const Shard& shard, const Capacity& capacity, std::unique_ptr<ops::Ops> ops,
            parallel::Communicator& communicator);

  WeightStore& weights() { return weights_; }
  const WeightStore& weights() const { return weights_; }
  ops::Ops& ops() { return *ops_; }
  const Shard& shard() const { return shard_; }

  // To be called once every tensor is there.
  void finish_loading(const Embedding& embedding);

  // Computes the step on this rank together with the others. `output` has room for every rank and row of logits.
  void forward(const Step& step, StepOutput& output);

 private:
  void upload(const Step& step);
  void compute(const StepRows& rows, const int32_t* wanted, int count);  // all of a step that runs on the backend
  void collect(const Step& step, StepOutput& output);                    // what comes back to the host

  const ModelConfig& config_;
  const Shard shard_;
  std::unique_ptr<ops::Ops> ops_;  // first: the rest is its memory
  WeightStore weights_;
  State state_;
  Scratch scratch_;
  Context context_;
  Capacity capacity_;
  std::unique_ptr<Layers> layers_;
  Embedding embedding_;
  const float* norm_ = nullptr;        // [hidden_size]
  const ops::Linear* head_ = nullptr;  // [vocab_rows, hidden_size]
  std::vector<int32_t> sent_;          // of a step: slots, positions, tokens, then the wanted rows
  std::vector<uint32_t> received_;     // [2, wanted]: bits of the largest logits, then their columns
};

}  // namespace paceline::model
