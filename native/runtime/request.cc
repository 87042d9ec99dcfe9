#include "runtime/request.h"

#include <algorithm>

namespace paceline::runtime {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool RequestSpec::stops_at(int32_t token) const { return std::find(stop_ids.begin(), stop_ids.end(), token) != stop_ids.end(); }

int64_t Request::admitted_ns() const {
  const std::lock_guard lock(mutex_);
  return admitted_ns_;
}

int64_t Request::finished_ns() const {
  const std::lock_guard lock(mutex_);
  return finished_ns_;
}

RequestState Request::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

FinishReason Request::finish_reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::string Request::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::vector<int32_t> Request::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

std::vector<int64_t> Request::token_times_ns() const {
  const std::lock_guard lock(mutex_);
  return times_ns_;
}

std::vector<float> Request::logits() const {
  const std::lock_guard lock(mutex_);
  return logits_;
}

bool Request::wait(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return done_changed_.wait_for(lock, timeout, [this] { return state_ == RequestState::kDone; });
}

size_t Request::wait_tokens(size_t seen, std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  tokens_changed_.wait_for(lock, timeout, [&] { return state_ == RequestState::kDone || tokens_.size() > seen; });
  return tokens_.size();
}

void Request::cancel() {
  if (!cancelled_.exchange(true, std::memory_order_acq_rel)) cancels_->fetch_add(1, std::memory_order_release);
}

void Request::enter(RequestState state, int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  if (state_ == RequestState::kWaiting) admitted_ns_ = at_ns;
  state_ = state;
}

size_t Request::commit(int32_t token, int64_t at_ns, std::span<const float> logits) {
  size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    tokens_.push_back(token);
    times_ns_.push_back(at_ns);
    if (spec_.keep_logits) logits_.insert(logits_.end(), logits.begin(), logits.end());
    count = tokens_.size();
  }
  tokens_changed_.notify_all();
  return count;
}

void Request::finish(FinishReason reason, std::string error, int64_t at_ns) {
  {
    const std::lock_guard lock(mutex_);
    state_ = RequestState::kDone;
    reason_ = reason;
    error_ = std::move(error);
    finished_ns_ = at_ns;
  }
  tokens_changed_.notify_all();
  done_changed_.notify_all();
}

}  // namespace paceline::runtime
