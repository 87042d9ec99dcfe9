#include "model/rank_model.h"

#include <bit>

namespace paceline::model {

std::vector<TensorSpec> list_tensors(const ModelConfig& config, const Shard& shard) {
  std::vector<TensorSpec> tensors;
  tensors.push_back({"norm", TensorKind::kVector, {config.hidden_size}, 0});
  if (shard.vocab_rows > 0) tensors.push_back({"head", TensorKind::kMatrix, {shard.vocab_rows}, config.hidden_size});
  find_family(config.family).list_layers(config, shard, tensors);
  return tensors;
}

RankModel::RankModel(const ModelConfig& config, const Shard& shard, const Capacity& capacity, std::unique_ptr<ops::Ops> ops,
                     parallel::Communicator& communicator)
    : config_(config),
      shard_(shard),
      ops_(std::move(ops)),
      weights_(shard.rank, list_tensors(config, shard)),
      state_(config, shard, capacity, *ops_),
      scratch_(config, shard, capacity, *ops_),
      context_{config_, shard_, *ops_, communicator, state_, scratch_},
      capacity_(capacity) {
  communicator.attach(shard.rank, *ops_, int64_t{capacity.rows} * config.hidden_size);
}

void RankModel::finish_loading(const Embedding& embedding) {
  const size_t bytes = static_cast<size_t>(config_.vocab_size) * static_cast<size_t>(config_.hidden_size) *
                       static_cast<size_t>(size_of(embedding.dtype));
  embedding_ = {.table = ops_->place(embedding.table, bytes), .dtype = embedding.dtype};
  norm_ = weights_.vector("norm");
  if (shard_.vocab_rows > 0) head_ = weights_.matrix("head");
  layers_ = find_family(config_.family).bind(context_, weights_);
}

void RankModel::upload(const Step& step) {
  sent_.clear();
  for (const auto* part : {&step.slot, &step.position, &step.token, &step.wanted}) {
    sent_.insert(sent_.end(), part->begin(), part->end());
  }
  ops_->upload(scratch_.rows, sent_.data(), sent_.size() * sizeof(int32_t));
}

void RankModel::forward(const Step& step, StepOutput& output) {
  upload(step);
  const int count = step.rows(), wanted = static_cast<int>(step.wanted.size());
  const int32_t* slot = scratch_.rows;
  const StepRows rows = {.all = {.count = count, .slot = slot, .position = slot + count, .token = slot + 2 * count},
                         .chunked = step.chunked};
  const auto work = [&] { compute(rows, slot + 3 * count, wanted); };
  // Every row wanted: every row a sequence of its own, as in every decode step. Such steps differ in the contents of the
  // backend's memory alone, as long as their numbers of rows agree. Other ranks' threads are none of the backend's business.
  if (wanted == count && step.chunked == 0 && count <= kMaxRecorded && shard_.ranks == 1) {
    ops_->replay(static_cast<uint64_t>(count), work);
  } else {
    work();
  }
  if (wanted > 0 && head_ != nullptr) collect(step, output);
  ops_->synchronize();
}

void RankModel::compute(const StepRows& rows, const int32_t* wanted, int count) {
  ops_->embed(rows.all, embedding_.table, embedding_.dtype, config_.hidden_size, scratch_.hidden);
  layers_->forward(rows);
  if (count == 0 || head_ == nullptr) return;
  const int width = shard_.vocab_rows;
  const bool all = count == rows.all.count;
  if (!all) ops_->gather(scratch_.hidden, wanted, count, config_.hidden_size, scratch_.picked);
  ops_->rms_norm(all ? scratch_.hidden : scratch_.picked, norm_, config_.rms_norm_eps, count, config_.hidden_size,
                 scratch_.normed);
  ops_->linear(*head_, scratch_.normed, count, scratch_.logits, width);
  ops_->argmax(scratch_.logits, count, width, width, scratch_.best, reinterpret_cast<int32_t*>(scratch_.best) + count);
}

void RankModel::collect(const Step& step, StepOutput& output) {
  const size_t wanted = step.wanted.size();
  const auto width = static_cast<size_t>(shard_.vocab_rows);
  received_.resize(2 * wanted);
  ops_->download(received_.data(), scratch_.best, received_.size() * sizeof(uint32_t));
  for (size_t i = 0; i < wanted; ++i) {
    if (step.keep[i] == 0) continue;
    float* row = output.logits.data() + i * static_cast<size_t>(config_.vocab_size) + shard_.vocab_begin;
    ops_->download(row, scratch_.logits + i * width, width * sizeof(float));
  }
  ops_->synchronize();
  std::vector<Best>& best = output.best[static_cast<size_t>(shard_.rank)];
  for (size_t i = 0; i < wanted; ++i) {
    best.push_back({std::bit_cast<float>(received_[i]), shard_.vocab_begin + static_cast<int32_t>(received_[wanted + i])});
  }
}

}  // namespace paceline::model
