// The engine: one model on its ranks, loaded once, then serving requests.
#pragma once

#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/memory_plan.h"
#include "runtime/rank_group.h"
#include "runtime/scheduler.h"

namespace paceline::runtime {

struct MemoryUse {       // bytes, all ranks together
  uint64_t weights = 0;  // as packed; the embedding stays in the mapped file
  uint64_t kv_cache = 0;
  uint64_t state = 0;  // DeltaNet and convolution
  uint64_t scratch = 0;
};

class Engine {
 public:
  // Validates everything, plans the memory, allocates caches. Throws ConfigError, OutOfMemoryError.
  // `make_ops` replaces the backend that the options name.
  Engine(model::ModelConfig config, EngineOptions options, OpsFactory make_ops = nullptr);
  ~Engine() { close(); }

  // Loading, from any thread, until finish_loading. Throw WeightError, EngineClosed, and Error once loading is over.
  void set_matrix(int rank, const std::string& name, std::span<const model::MatrixPart> parts);
  void set_vector(int rank, const std::string& name, std::span<const float> values, std::span<const int64_t> shape);
  void set_embedding(const model::Embedding& embedding, int64_t rows, int64_t cols);
  void make_random_matrix(int rank, const std::string& name, DType dtype, uint64_t seed);
  void make_random_embedding(uint64_t seed);
  void finish_loading();

  // Serving, from any thread, after finish_loading. Throw RequestRefused, EngineClosed, Error.
  std::shared_ptr<Request> submit(RequestSpec spec);
  std::vector<std::shared_ptr<Request>> submit_all(std::vector<RequestSpec> specs);

  Counters stats() const { return stats_.read(); }
  void reset_peaks() { stats_.reset_peaks(); }
  MemoryUse memory() const;
  uint64_t step_bytes(int rows, int context) const;  // a decode step must read: all matrices once, and the caches of each row
  const EngineOptions& options() const { return options_; }
  const model::ModelConfig& config() const { return config_; }
  const std::vector<Processors>& homes() const { return homes_; }  // as homes_of() has them

  void close();  // ends every request, then gives the memory back; idempotent, from any thread

 private:
  enum class Phase : uint8_t { kLoading, kServing, kClosed };

  void require_loading() const;
  void require_serving() const;

  const model::ModelConfig config_;
  const EngineOptions options_;
  const std::vector<Processors> homes_;
  mutable std::shared_mutex phase_mutex_;
  Phase phase_ = Phase::kLoading;
  MemoryPlan plan_;
  Stats stats_;
  std::unique_ptr<RankGroup> ranks_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace paceline::runtime
