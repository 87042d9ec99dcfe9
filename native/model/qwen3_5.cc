// Qwen3.5 text: Gated DeltaNet layers and, between them, attention with an output gate and partial RoPE; SwiGLU.
#include <variant>

#include "model/family.h"

namespace paceline::model {
namespace {

struct Layer {
  std::variant<AttentionWeights, DeltaNetWeights> mixer;
  MlpWeights mlp;
};

class Qwen35Layers final : public Layers {
 public:
  Qwen35Layers(const Context& context, const WeightStore& store) : context_(context) {
    for (int layer = 0; layer < context.config.num_layers(); ++layer) {
      if (context.config.layers[static_cast<size_t>(layer)] == LayerType::kFullAttention) {
        layers_.push_back({find_attention(store, layer, /*gated=*/true), find_mlp(store, layer)});
      } else {
        layers_.push_back({find_delta_net(store, layer), find_mlp(store, layer)});
      }
    }
  }

  void forward(const StepRows& rows) override {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const int layer = static_cast<int>(i);
      if (const auto* attention = std::get_if<AttentionWeights>(&layers_[i].mixer)) {
        run_attention(context_, rows, layer, *attention);
      } else {
        run_delta_net(context_, rows, layer, std::get<DeltaNetWeights>(layers_[i].mixer));
      }
      run_mlp(context_, rows, layers_[i].mlp);
    }
  }

 private:
  const Context context_;
  std::vector<Layer> layers_;
};

void validate_qwen35(const ModelConfig&) {}  // any mix of the two layer types

void list_layers(const ModelConfig& config, const Shard& shard, std::vector<TensorSpec>& tensors) {
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    if (config.layers[static_cast<size_t>(layer)] == LayerType::kFullAttention) {
      list_attention(config, shard, layer, /*gated=*/true, tensors);
    } else {
      list_delta_net(config, shard, layer, tensors);
    }
    list_mlp(config, shard, layer, tensors);
  }
}

std::unique_ptr<Layers> bind(const Context& context, const WeightStore& store) {
  return std::make_unique<Qwen35Layers>(context, store);
}

}  // namespace

const Family kQwen35 = {.name = "qwen3_5", .validate = validate_qwen35, .list_layers = list_layers, .bind = bind};

}  // namespace paceline::model
