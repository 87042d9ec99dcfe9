#include "model/rank_model.h"

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
      capacity_(capacity),
      best_(static_cast<size_t>(capacity.slots)),
      index_(static_cast<size_t>(capacity.slots)) {
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

void RankModel::forward(const Step& step, StepOutput& output) {
  const size_t bytes = step.slot.size() * sizeof(int32_t);
  int32_t* slot = scratch_.rows;
  int32_t* position = slot + capacity_.rows;
  int32_t* token = position + capacity_.rows;
  ops_->upload(slot, step.slot.data(), bytes);
  ops_->upload(position, step.position.data(), bytes);
  ops_->upload(token, step.token.data(), bytes);
  const StepRows rows = {.all = {.count = step.rows(), .slot = slot, .position = position, .token = token},
                         .chunked = step.chunked};
  ops_->embed(rows.all, embedding_.table, embedding_.dtype, config_.hidden_size, scratch_.hidden);
  layers_->forward(rows);
  if (!step.wanted.empty() && head_ != nullptr) answer(step, output);
  ops_->synchronize();
}

void RankModel::answer(const Step& step, StepOutput& output) {
  const int wanted = static_cast<int>(step.wanted.size());
  const int width = shard_.vocab_rows;
  ops_->gather(scratch_.hidden, step.wanted, config_.hidden_size, scratch_.picked);
  ops_->rms_norm(scratch_.picked, norm_, config_.rms_norm_eps, wanted, config_.hidden_size, scratch_.normed);
  ops_->linear(*head_, scratch_.normed, wanted, scratch_.logits, width);
  ops_->argmax(scratch_.logits, wanted, width, width, scratch_.best, scratch_.index);
  ops_->download(best_.data(), scratch_.best, step.wanted.size() * sizeof(float));
  ops_->download(index_.data(), scratch_.index, step.wanted.size() * sizeof(int32_t));
  std::vector<Best>& best = output.best[static_cast<size_t>(shard_.rank)];
  for (size_t i = 0; i < step.wanted.size(); ++i) {
    best.push_back({best_[i], shard_.vocab_begin + index_[i]});
    if (step.keep[i] == 0) continue;
    float* row = output.logits.data() + i * static_cast<size_t>(config_.vocab_size) + shard_.vocab_begin;
    ops_->download(row, scratch_.logits + i * static_cast<size_t>(width), static_cast<size_t>(width) * sizeof(float));
  }
}

}  // namespace paceline::model
