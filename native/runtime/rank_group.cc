#include "runtime/rank_group.h"

#include <algorithm>

#include "parallel/barrier.h"
#include "runtime/devices.h"
#include "runtime/memory_plan.h"

namespace paceline::runtime {
namespace {

constexpr int kSpins = 2000;  // pauses, some tens of microseconds: longer than the ranks' usual differences at a barrier

int spins_of(const EngineOptions& options) { return oversubscribed(options) ? 0 : kSpins; }

std::vector<Processors> first_of_each(const std::vector<Processors>& homes, const EngineOptions& options) {
  std::vector<Processors> firsts(static_cast<size_t>(options.tp));
  for (size_t rank = 0; rank < firsts.size() && !homes.empty(); ++rank) {
    firsts[rank] = homes[rank * static_cast<size_t>(threads_per_rank(options))];
  }
  return firsts;
}

}  // namespace

RankGroup::RankGroup(const model::ModelConfig& config, const EngineOptions& options, const std::vector<Processors>& homes,
                     const OpsFactory& make_ops)
    : config_(config),
      options_(options),
      homes_(first_of_each(homes, options)),
      communicator_(parallel::make_shared_memory_communicator(options.tp, spins_of(options))),
      errors_(static_cast<size_t>(options.tp)),
      threads_(homes_, spins_of(options)) {
  for (int rank = 0; rank < options.tp; ++rank) {
    const Visit visit(home(rank));  // what is small is zeroed, and so placed, here
    const model::Shard shard = model::make_shard(config, rank, options.tp);
    models_.push_back(std::make_unique<model::RankModel>(config_, shard, capacity_of(options), make_ops(rank), *communicator_));
    loading_.push_back(std::make_unique<std::mutex>());
  }
}

model::RankModel& RankGroup::rank_model(int rank) {
  check<WeightError>(rank >= 0 && rank < ranks(), "rank = ", rank, ": the engine has ranks 0 .. ", ranks() - 1);
  return *models_[static_cast<size_t>(rank)];
}

void RankGroup::set_matrix(int rank, const std::string& name, std::span<const model::MatrixPart> parts) {
  model::RankModel& target = rank_model(rank);
  uint64_t needed = 0;
  for (const model::MatrixPart& part : parts) {
    needed += static_cast<uint64_t>(part.slice.rows * part.slice.cols) *
              static_cast<uint64_t>(part.slice.dtype == DType::kF8E4M3 ? 1 : 2);
  }
  const uint64_t available = available_memory(options_);
  check<OutOfMemoryError>(needed <= available, "rank ", rank, ", tensor ", name, " needs ", bytes_text(needed), ", ",
                          bytes_text(available), " are available after ", bytes_text(weight_bytes()),
                          " of weights: use a smaller or an FP8 checkpoint");
  const std::lock_guard lock(*loading_[static_cast<size_t>(rank)]);
  const Visit visit(home(rank));  // the caller packs the first thread's share
  target.weights().set_matrix(name, parts, target.ops());
}

void RankGroup::set_vector(int rank, const std::string& name, std::span<const float> values, std::span<const int64_t> shape) {
  model::RankModel& target = rank_model(rank);
  const std::lock_guard lock(*loading_[static_cast<size_t>(rank)]);
  target.weights().set_vector(name, values, shape, target.ops());
}

void RankGroup::set_embedding(const model::Embedding& embedding, int64_t rows, int64_t cols) {
  check<WeightError>(rows == config_.vocab_size && cols == config_.hidden_size, "tensor embed: its shape is [", rows, ", ", cols,
                     "], expected [", config_.vocab_size, ", ", config_.hidden_size, "]");
  check<WeightError>(embedding.dtype != DType::kF8E4M3, "tensor embed: f8_e4m3 cannot be looked up, expected bf16, f16 or f32");
  const std::lock_guard lock(embedding_mutex_);
  check<WeightError>(embedding_.table == nullptr, "tensor embed: set twice");
  embedding_ = embedding;
}

void RankGroup::make_random_matrix(int rank, const std::string& name, DType dtype, uint64_t seed) {
  model::RankModel& target = rank_model(rank);
  const std::lock_guard lock(*loading_[static_cast<size_t>(rank)]);
  target.weights().make_random(name, dtype, seed, target.ops());
}

void RankGroup::make_random_embedding(uint64_t seed) {
  check<WeightError>(ranks() == 1, "tensor embed: a random one serves one rank, the engine has ", ranks());
  const int64_t count = int64_t{config_.vocab_size} * config_.hidden_size;
  const std::lock_guard lock(embedding_mutex_);
  check<WeightError>(embedding_.table == nullptr, "tensor embed: set twice");
  embedding_ = {.table = models_[0]->ops().make_random_table(count, seed), .dtype = DType::kBF16};
  check<WeightError>(embedding_.table != nullptr, "tensor embed: this backend makes no random weights");
}

void RankGroup::finish_loading() {
  std::string names;
  int missing = 0;
  const auto miss = [&](const std::string& name) {
    names += (missing == 0 ? "" : ", ") + name;
    ++missing;
  };
  if (embedding_.table == nullptr) miss("embed");
  for (const auto& each : models_) {
    for (const std::string& name : each->weights().missing()) miss(concat("rank ", each->shard().rank, ": ", name));
  }
  check<WeightError>(missing == 0, missing, missing == 1 ? " tensor is" : " tensors are", " missing: ", names);
  for (const auto& each : models_) each->finish_loading(embedding_);
  if (models_.front()->ops().records()) rehearse();
}

// Every width of a decode step twice, so that a backend has recorded it before the first request. What this leaves in the caches
// is of no account: a request starts at position 0, from empty states.
void RankGroup::rehearse() {
  model::Step step;
  model::StepOutput output;
  for (int rows = 1; rows <= std::min(slots_in_use(options_), model::kMaxRecorded); ++rows) {
    step.clear();
    for (int row = 0; row < rows; ++row) {
      step.slot.push_back(row);
      step.position.push_back(0);
      step.token.push_back(0);
      step.wanted.push_back(row);
      step.keep.push_back(0);
    }
    for (int time = 0; time < 2; ++time) run(step, output);
  }
}

void RankGroup::run(const model::Step& step, model::StepOutput& output) {
  output.best.resize(models_.size());
  for (auto& best : output.best) best.clear();
  bool keeps = false;
  for (const uint8_t keep : step.keep) keeps = keeps || keep != 0;
  output.logits.resize(keeps ? step.wanted.size() * static_cast<size_t>(config_.vocab_size) : 0);
  threads_.run([&](int rank) {
    std::string& error = errors_[static_cast<size_t>(rank)];
    try {
      models_[static_cast<size_t>(rank)]->forward(step, output);
      return;
    } catch (const parallel::Aborted&) {
      return;  // the rank that failed says why
    } catch (const std::exception& exception) {
      error = exception.what();
    } catch (...) {
      error = "an unknown error";
    }
    communicator_->abort();
  });
  for (size_t rank = 0; rank < errors_.size(); ++rank) {
    if (!errors_[rank].empty()) throw RankFailure(concat("rank ", rank, ": ", errors_[rank]));
  }
}

uint64_t RankGroup::weight_bytes() const {
  uint64_t sum = 0;
  for (size_t rank = 0; rank < models_.size(); ++rank) {
    const std::lock_guard lock(*loading_[rank]);
    sum += models_[rank]->weights().bytes();
  }
  return sum;
}

uint64_t RankGroup::matrix_bytes() const {
  uint64_t sum = 0;
  for (const auto& each : models_) sum += each->weights().matrix_bytes();
  return sum;
}

}  // namespace paceline::runtime
