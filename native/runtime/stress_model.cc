#include "runtime/stress_model.h"

#include <cmath>
#include <random>
#include <thread>

namespace paceline::runtime {
namespace {

std::vector<float> random_values(int64_t count, float mean, float deviation, std::mt19937_64& random) {
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> result;
  result.reserve(values.size());
  for (const float value : values) result.push_back(float_to_bf16(value));
  return result;
}

}  // namespace

StressModel::StressModel(const std::string& family, uint64_t seed) : seed_(seed) {
  config_.family = family;
  config_.vocab_size = 101;
  config_.hidden_size = 32;
  config_.intermediate_size = 64;
  config_.num_heads = 4;
  config_.num_kv_heads = 2;
  config_.head_dim = 16;
  config_.rotary_dim = family == "qwen3" ? 16 : 8;
  config_.rope_theta = 10000;
  config_.rms_norm_eps = 1e-6f;
  config_.layers = {model::LayerType::kFullAttention, model::LayerType::kFullAttention};
  if (family == "qwen3_5") {
    config_.layers.insert(config_.layers.begin(), model::LayerType::kLinearAttention);
    config_.linear_num_key_heads = 4;
    config_.linear_num_value_heads = 8;
    config_.linear_key_head_dim = 16;
    config_.linear_value_head_dim = 16;
    config_.linear_conv_kernel = 4;
  }
  std::mt19937_64 random(seed);
  embedding_ = to_bf16(random_values(int64_t{config_.vocab_size} * config_.hidden_size, 0, 1, random));
}

std::unique_ptr<Engine> StressModel::open(EngineOptions options, OpsFactory make_ops) const {
  const int ranks = options.tp;
  auto engine = std::make_unique<Engine>(config_, std::move(options), std::move(make_ops));
  std::vector<std::thread> loaders;
  loaders.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) loaders.emplace_back([&, rank] { load_rank(*engine, rank, ranks); });
  engine->set_embedding({.table = embedding_.data(), .dtype = DType::kBF16}, config_.vocab_size, config_.hidden_size);
  for (std::thread& loader : loaders) loader.join();
  engine->finish_loading();
  return engine;
}

// Every rank draws weights of its own: a model that no checkpoint holds, but the same one in every engine of as many ranks.
void StressModel::load_rank(Engine& engine, int rank, int ranks) const {
  std::mt19937_64 random(seed_ + 1 + static_cast<uint64_t>(rank));
  const model::Shard shard = model::make_shard(config_, rank, ranks);
  for (const model::TensorSpec& tensor : model::list_tensors(config_, shard)) {
    if (tensor.kind == model::TensorKind::kVector) {
      const std::vector<float> values = random_values(tensor.elements(), 1, 0.1f, random);
      std::vector<int64_t> shape = {tensor.rows()};
      if (tensor.cols > 0) shape.push_back(tensor.cols);
      engine.set_vector(rank, tensor.name, values, shape);
      continue;
    }
    const float deviation = 2 / std::sqrt(static_cast<float>(tensor.cols));
    const std::vector<uint16_t> values = to_bf16(random_values(tensor.elements(), 0, deviation, random));
    const int64_t stride = tensor.cols * static_cast<int64_t>(sizeof(uint16_t));
    const model::MatrixPart part = {
        .slice = {.data = values.data(),
                  .dtype = DType::kBF16,
                  .rows = tensor.rows(),
                  .cols = tensor.cols,
                  .row_stride = stride,
                  .scale = nullptr,
                  .scale_cols = 0,
                  .row_offset = 0,
                  .col_offset = 0},
        .scale_rows = 0,
    };
    engine.set_matrix(rank, tensor.name, {&part, 1});
  }
}

}  // namespace paceline::runtime
