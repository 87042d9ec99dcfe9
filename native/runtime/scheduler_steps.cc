// The steps of a tick: which rows run, and what becomes of their tokens.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/scheduler.h"

namespace paceline::runtime {
namespace {

constexpr int kChunk = 256;      // rows of a prompt that enter one step at most
constexpr int kLongPrompt = 64;  // tokens beyond which a prompt takes the chunked form of DeltaNet

bool is_long(const Request& request) { return request.spec().prompt.size() > static_cast<size_t>(kLongPrompt); }

}  // namespace

int Scheduler::chunk_rows(const Slot& slot) const {
  return std::min({kChunk, limits_.prefill_rows, slot.prompt_size() - slot.filled});
}

// The slots whose next chunk enters this step. Whoever was served longest ago comes first and always enters; the others fill up
// what is left. A chunk is never cut to fit: where it ends depends on its prompt alone.
std::vector<int> Scheduler::pick_chunks() {
  std::vector<int> picked;
  std::vector<int> of_short_prompts;
  int rows = 0;
  for (const int index : prefilling_) {
    const Slot& slot = slots_[static_cast<size_t>(index)];
    const int chunk = chunk_rows(slot);
    if (rows + chunk > limits_.prefill_rows) continue;
    rows += chunk;
    (is_long(*slot.request) ? picked : of_short_prompts).push_back(index);
  }
  picked.insert(picked.end(), of_short_prompts.begin(), of_short_prompts.end());  // rows of the chunked form stand first
  return picked;
}

void Scheduler::add_prefill_rows(const Slot& slot, int index, int rows) {
  const std::vector<int32_t>& prompt = slot.request->spec().prompt;
  for (int position = slot.filled; position < slot.filled + rows; ++position) {
    step_.slot.push_back(index);
    step_.position.push_back(position);
    step_.token.push_back(prompt[static_cast<size_t>(position)]);
  }
  if (is_long(*slot.request)) step_.chunked += rows;
  if (slot.filled + rows == slot.prompt_size()) add_wanted(slot, step_.rows() - 1);
}

void Scheduler::add_wanted(const Slot& slot, int row) {
  const RequestSpec& spec = slot.request->spec();
  step_.wanted.push_back(row);
  step_.keep.push_back(spec.keep_logits || !spec.sampling.greedy() ? 1 : 0);
}

double Scheduler::run_step() {
  const int64_t start = now_ns();
  ranks_.run(step_, output_);
  return static_cast<double>(now_ns() - start) * 1e-9;
}

void Scheduler::prefill() {
  if (prefilling_.empty()) return;
  const std::vector<int> picked = pick_chunks();
  step_.clear();
  for (const int index : picked) {
    Slot& slot = slots_[static_cast<size_t>(index)];
    const int rows = chunk_rows(slot);
    add_prefill_rows(slot, index, rows);
    slot.filled += rows;
  }
  const double seconds = run_step();
  stats_.prefill_step(step_.rows(), seconds);
  const int64_t at = now_ns();
  size_t row = 0;
  for (const int index : picked) {
    Slot& slot = slots_[static_cast<size_t>(index)];
    std::erase(prefilling_, index);
    if (slot.filled < slot.prompt_size()) {
      prefilling_.push_back(index);
      continue;
    }
    slot.decoding = true;
    slot.request->enter(RequestState::kDecode, at);
    commit(slot, row++, at);
  }
}

void Scheduler::decode() {
  step_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.request || !slot.decoding) continue;
    if (slot.request->cancel_requested()) {
      retire(slot, FinishReason::kCancelled);
      continue;
    }
    step_.slot.push_back(static_cast<int32_t>(i));
    step_.position.push_back(slot.filled);
    step_.token.push_back(slot.token);
    add_wanted(slot, step_.rows() - 1);
  }
  if (step_.rows() == 0) return;
  const double seconds = run_step();
  stats_.decode_step(step_.rows(), seconds);
  const int64_t at = now_ns();
  for (size_t row = 0; row < step_.slot.size(); ++row) {
    Slot& slot = slots_[static_cast<size_t>(step_.slot[row])];
    ++slot.filled;
    commit(slot, row, at);
  }
}

int32_t Scheduler::choose(const Request& request, size_t row, size_t count) const {
  model::Best best = {-INFINITY, -1};
  for (const std::vector<model::Best>& of_rank : output_.best) {  // in order of their vocabulary rows: the lowest id wins a tie
    if (!of_rank.empty() && of_rank[row].value > best.value) best = of_rank[row];
  }
  check(std::isfinite(best.value) && best.token >= 0 && best.token < limits_.vocab_size, "token ", count,
        ": the logits are not finite");
  const Sampling& sampling = request.spec().sampling;
  if (sampling.greedy()) return best.token;
  const size_t width = static_cast<size_t>(limits_.vocab_size);
  return sample({output_.logits.data() + row * width, width}, sampling, count);
}

void Scheduler::commit(Slot& slot, size_t row, int64_t at_ns) {
  Request& request = *slot.request;
  if (request.cancel_requested()) {
    retire(slot, FinishReason::kCancelled);
    return;
  }
  const size_t count = static_cast<size_t>(slot.filled - slot.prompt_size());  // tokens so far
  try {
    slot.token = choose(request, row, count);
  } catch (const Error& error) {  // this row's numbers are its own: the others go on
    retire(slot, FinishReason::kError, error.what());
    return;
  }
  std::span<const float> logits;
  const size_t width = static_cast<size_t>(limits_.vocab_size);
  if (step_.keep[row] != 0) logits = {output_.logits.data() + row * width, width};
  stats_.commit();
  const size_t tokens = request.commit(slot.token, at_ns, logits);
  if (request.spec().stops_at(slot.token)) {
    retire(slot, FinishReason::kStop);
  } else if (tokens == static_cast<size_t>(request.spec().max_new_tokens)) {
    retire(slot, FinishReason::kLength);
  }
}

}  // namespace paceline::runtime
