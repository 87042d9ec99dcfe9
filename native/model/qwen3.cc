// Qwen3 dense: grouped-query attention with head norms and full RoPE, SwiGLU.
#include "base/error.h"
#include "model/family.h"

namespace paceline::model {
namespace {

struct Layer {
  AttentionWeights attention;
  MlpWeights mlp;
};

class Qwen3Layers final : public Layers {
 public:
  Qwen3Layers(const Context& context, const WeightStore& store) : context_(context) {
    for (int layer = 0; layer < context.config.num_layers(); ++layer) {
      layers_.push_back({find_attention(store, layer, /*gated=*/false), find_mlp(store, layer)});
    }
  }

  void forward(const StepRows& rows) override {
    for (size_t i = 0; i < layers_.size(); ++i) {
      run_attention(context_, rows, static_cast<int>(i), layers_[i].attention);
      run_mlp(context_, rows, layers_[i].mlp);
    }
  }

 private:
  const Context context_;
  std::vector<Layer> layers_;
};

void validate_qwen3(const ModelConfig& config) {
  const int linear = config.count(LayerType::kLinearAttention);
  if (linear > 0)
    throw ConfigError(concat("layer_types has ", linear, " linear_attention layers, family qwen3 has full_attention alone"));
}

void list_layers(const ModelConfig& config, const Shard& shard, std::vector<TensorSpec>& tensors) {
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    list_attention(config, shard, layer, /*gated=*/false, tensors);
    list_mlp(config, shard, layer, tensors);
  }
}

std::unique_ptr<Layers> bind(const Context& context, const WeightStore& store) {
  return std::make_unique<Qwen3Layers>(context, store);
}

}  // namespace

const Family kQwen3 = {.name = "qwen3", .validate = validate_qwen3, .list_layers = list_layers, .bind = bind};

}  // namespace paceline::model
