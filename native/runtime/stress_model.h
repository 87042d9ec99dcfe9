// A tiny model with random weights, for the stress program.
#pragma once

#include <memory>
#include <vector>

#include "runtime/engine.h"

namespace paceline::runtime {

class StressModel {
 public:
  // `family`: "qwen3" or "qwen3_5".
  StressModel(const std::string& family, uint64_t seed);

  const model::ModelConfig& config() const { return config_; }

  // An engine on this model, loaded by one thread a rank. The model outlives it.
  std::unique_ptr<Engine> open(EngineOptions options, OpsFactory make_ops = nullptr) const;

 private:
  void load_rank(Engine& engine, int rank, int ranks) const;

  model::ModelConfig config_;
  uint64_t seed_;
  std::vector<uint16_t> embedding_;  // bfloat16 [vocab_size, hidden_size]
};

}  // namespace paceline::runtime
