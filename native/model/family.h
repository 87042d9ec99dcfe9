// A model family: which tensors a rank needs, and the order of the blocks. One file each, listed in family.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/blocks.h"

namespace paceline::model {

class Layers {  // the layers of one rank, bound to loaded weights
 public:
  virtual ~Layers() = default;
  virtual void forward(const StepRows& rows) = 0;  // updates scratch.hidden and the slots' caches
};

struct Family {
  const char* name;
  void (*validate)(const ModelConfig& config);  // throws ConfigError on what this family cannot have
  void (*list_layers)(const ModelConfig& config, const Shard& shard, std::vector<TensorSpec>& tensors);
  std::unique_ptr<Layers> (*bind)(const Context& context, const WeightStore& store);
};

extern const Family kQwen3;   // dense: attention and MLP
extern const Family kQwen35;  // Gated DeltaNet and gated attention in turn, and MLP

// Throws ConfigError naming the families there are.
const Family& find_family(const std::string& name);

}  // namespace paceline::model
