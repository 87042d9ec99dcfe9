#include "runtime/engine.h"

#include "base/error.h"
#include "runtime/devices.h"

namespace paceline::runtime {
namespace {

model::ModelConfig checked(model::ModelConfig config) {
  model::validate(config);
  model::find_family(config.family).validate(config);
  return config;
}

EngineOptions checked(EngineOptions options) {
  validate(options);
  return options;
}

}  // namespace

Engine::Engine(model::ModelConfig config, EngineOptions options, OpsFactory make_ops)
    : config_(checked(std::move(config))),
      options_(checked(std::move(options))),
      homes_(homes_of(options_)),
      plan_(plan_memory(config_, options_)) {
  require_memory(plan_, options_, available_memory(options_));
  if (!make_ops) make_ops = backend_of(options_, homes_);
  ranks_ = std::make_unique<RankGroup>(config_, options_, homes_, make_ops);
  const Limits limits = {
      .slots = slots_in_use(options_),
      .context = options_.context,
      .prefill_rows = options_.prefill_rows,
      .queue_limit = options_.queue_limit,
      .vocab_size = config_.vocab_size,
  };
  scheduler_ = std::make_unique<Scheduler>(*ranks_, limits, stats_);
}

void Engine::require_loading() const {
  check<EngineClosed>(phase_ != Phase::kClosed, "the engine is closed");
  check(phase_ == Phase::kLoading, "the engine is loaded: its tensors are final");
}

void Engine::require_serving() const {
  check<EngineClosed>(phase_ != Phase::kClosed, "the engine is closed");
  check(phase_ == Phase::kServing, "the engine is not loaded: call finish_loading first");
}

void Engine::set_matrix(int rank, const std::string& name, std::span<const model::MatrixPart> parts) {
  const std::shared_lock lock(phase_mutex_);
  require_loading();
  ranks_->set_matrix(rank, name, parts);
}

void Engine::set_vector(int rank, const std::string& name, std::span<const float> values, std::span<const int64_t> shape) {
  const std::shared_lock lock(phase_mutex_);
  require_loading();
  ranks_->set_vector(rank, name, values, shape);
}

void Engine::set_embedding(const model::Embedding& embedding, int64_t rows, int64_t cols) {
  const std::shared_lock lock(phase_mutex_);
  require_loading();
  ranks_->set_embedding(embedding, rows, cols);
}

void Engine::make_random_matrix(int rank, const std::string& name, DType dtype, uint64_t seed) {
  const std::shared_lock lock(phase_mutex_);
  require_loading();
  ranks_->make_random_matrix(rank, name, dtype, seed);
}

void Engine::make_random_embedding(uint64_t seed) {
  const std::shared_lock lock(phase_mutex_);
  require_loading();
  ranks_->make_random_embedding(seed);
}

void Engine::finish_loading() {
  const std::unique_lock lock(phase_mutex_);
  require_loading();
  ranks_->finish_loading();
  scheduler_->start();
  phase_ = Phase::kServing;
}

std::shared_ptr<Request> Engine::submit(RequestSpec spec) {
  const std::shared_lock lock(phase_mutex_);
  require_serving();
  return scheduler_->submit(std::move(spec));
}

std::vector<std::shared_ptr<Request>> Engine::submit_all(std::vector<RequestSpec> specs) {
  const std::shared_lock lock(phase_mutex_);
  require_serving();
  return scheduler_->submit_all(std::move(specs));
}

MemoryUse Engine::memory() const {
  const std::shared_lock lock(phase_mutex_);
  check<EngineClosed>(phase_ != Phase::kClosed, "the engine is closed");
  return {.weights = ranks_->weight_bytes(), .kv_cache = plan_.kv_cache, .state = plan_.state, .scratch = plan_.scratch};
}

uint64_t Engine::step_bytes(int rows, int context) const {
  check<ConfigError>(rows >= 0 && context >= 0, "step_bytes(rows = ", rows, ", context = ", context,
                     "): both must be at least 0");
  const std::shared_lock lock(phase_mutex_);
  check<EngineClosed>(phase_ != Phase::kClosed, "the engine is closed");
  const uint64_t slots = static_cast<uint64_t>(slots_in_use(options_));
  const uint64_t position =
      plan_.kv_cache / slots / static_cast<uint64_t>(options_.context);  // all layers and ranks: divides exactly
  const uint64_t state = 2 * plan_.state / slots;                        // read and written
  const uint64_t embedding = static_cast<uint64_t>(config_.hidden_size) * 2;
  return ranks_->matrix_bytes() + static_cast<uint64_t>(rows) * (position * static_cast<uint64_t>(context) + state + embedding);
}

void Engine::close() {
  {
    const std::unique_lock lock(phase_mutex_);
    phase_ = Phase::kClosed;
  }
  scheduler_->close();
  const std::unique_lock lock(phase_mutex_);
  ranks_.reset();
}

}  // namespace paceline::runtime
