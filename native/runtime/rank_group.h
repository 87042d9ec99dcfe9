// All ranks of one model: loading, and steps that run on every rank at once.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/rank_model.h"
#include "parallel/communicator.h"
#include "runtime/options.h"
#include "runtime/rank_threads.h"

namespace paceline::runtime {

using OpsFactory = std::function<std::unique_ptr<ops::Ops>(int rank)>;

class RankFailure : public Error {  // a step went wrong on a rank; the group is of no more use
 public:
  using Error::Error;
};

class RankGroup {
 public:
  // `homes` as homes_of() has them.
  RankGroup(const model::ModelConfig& config, const EngineOptions& options, const std::vector<Processors>& homes,
            const OpsFactory& make_ops);

  // Loading, from any thread; calls for different ranks run side by side. Throw WeightError.
  void set_matrix(int rank, const std::string& name, std::span<const model::MatrixPart> parts);
  void set_vector(int rank, const std::string& name, std::span<const float> values, std::span<const int64_t> shape);
  void set_embedding(const model::Embedding& embedding, int64_t rows, int64_t cols);
  void make_random_matrix(int rank, const std::string& name, DType dtype, uint64_t seed);
  void make_random_embedding(uint64_t seed);  // of a lone rank
  void finish_loading();                      // names every tensor that is missing

  // Runs a step; one caller at a time. Throws RankFailure with the error of the rank that failed, then and ever after.
  void run(const model::Step& step, model::StepOutput& output);

  const Processors& home(int rank) const { return homes_[static_cast<size_t>(rank)]; }  // of its first thread; empty: anywhere
  int ranks() const { return static_cast<int>(models_.size()); }
  int vocab_size() const { return config_.vocab_size; }
  uint64_t weight_bytes() const;  // as kept in memory
  uint64_t matrix_bytes() const;  // what one pass over all matrices reads
  size_t communicator_bytes() const { return communicator_->bytes(); }

 private:
  model::RankModel& rank_model(int rank);
  void rehearse();

  const model::ModelConfig& config_;
  const EngineOptions options_;
  const std::vector<Processors> homes_;                   // [ranks], of their first threads
  std::unique_ptr<parallel::Communicator> communicator_;  // before the models, which hold on to it
  std::vector<std::unique_ptr<model::RankModel>> models_;
  std::vector<std::unique_ptr<std::mutex>> loading_;  // one a rank: its backend takes one call at a time
  std::mutex embedding_mutex_;
  model::Embedding embedding_;
  std::vector<std::string> errors_;  // [ranks], of the last step
  RankThreads threads_;              // last: ends first
};

}  // namespace paceline::runtime
