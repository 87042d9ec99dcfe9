// Life of the scheduler and of its requests. Its steps are in scheduler_steps.cc.
#include "runtime/scheduler.h"

#include <pthread.h>

#include "base/error.h"

namespace paceline::runtime {

Scheduler::Scheduler(RankGroup& ranks, const Limits& limits, Stats& stats)
    : ranks_(ranks), limits_(limits), stats_(stats), slots_(static_cast<size_t>(limits.slots)) {}

void Scheduler::start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "scheduler");
    stay_on(ranks_.home(0));  // it is rank 0's first thread
    loop();
  });
}

void Scheduler::refuse_impossible(const RequestSpec& spec) const {
  check<RequestRefused>(!spec.prompt.empty(), "the prompt is empty: at least one token is needed");
  check<RequestRefused>(spec.max_new_tokens >= 1, "max_new_tokens = ", spec.max_new_tokens, ": it must be at least 1");
  check<RequestRefused>(spec.positions() <= limits_.context, "the request needs ", spec.positions(), " positions (",
                        spec.prompt.size(), " of prompt, ", spec.max_new_tokens,
                        " new), a slot holds context = ", limits_.context);
  for (size_t i = 0; i < spec.prompt.size(); ++i) {
    check<RequestRefused>(spec.prompt[i] >= 0 && spec.prompt[i] < limits_.vocab_size, "prompt_ids[", i, "] = ", spec.prompt[i],
                          ": token ids are 0 .. ", limits_.vocab_size - 1);
  }
  const Sampling& sampling = spec.sampling;
  check<RequestRefused>(sampling.temperature >= 0 && sampling.temperature < 1e6f, "temperature = ", sampling.temperature,
                        ": it must be 0 (greedy) or positive and finite");
  check<RequestRefused>(sampling.top_k >= 0, "top_k = ", sampling.top_k, ": it must be 0 (all) or positive");
  check<RequestRefused>(sampling.top_p > 0 && sampling.top_p <= 1, "top_p = ", sampling.top_p, ": it must be within (0, 1]");
}

std::shared_ptr<Request> Scheduler::submit(RequestSpec spec) {
  std::vector<RequestSpec> one;
  one.push_back(std::move(spec));
  return submit_all(std::move(one)).front();
}

std::vector<std::shared_ptr<Request>> Scheduler::submit_all(std::vector<RequestSpec> specs) {
  std::vector<std::shared_ptr<Request>> requests;
  {
    const std::lock_guard lock(mutex_);
    check<EngineClosed>(!closing_, "the engine is closed");
    check(failure_.empty(), "the engine has failed: ", failure_);
    try {
      for (const RequestSpec& spec : specs) refuse_impossible(spec);
      check<RequestRefused>(queue_.size() + specs.size() <= static_cast<size_t>(limits_.queue_limit),
                            "the queue is full: ", queue_.size(), " requests wait, ", specs.size(),
                            " more exceed queue_limit = ", limits_.queue_limit);
    } catch (const RequestRefused&) {
      for (size_t i = 0; i < specs.size(); ++i) stats_.refuse();
      throw;
    }
    for (RequestSpec& spec : specs) {
      requests.push_back(std::make_shared<Request>(next_id_++, std::move(spec), cancels_));
      queue_.push_back(requests.back());
      stats_.enqueue();
    }
  }
  work_.notify_one();
  return requests;
}

void Scheduler::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_.notify_one();
  const std::lock_guard lock(closing_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Scheduler::loop() {
  try {
    while (wait_for_work()) tick();
    end_all(FinishReason::kClosed, {});
  } catch (const std::exception& exception) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = exception.what();
    }
    end_all(FinishReason::kError, exception.what());
  }
}

bool Scheduler::wait_for_work() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [this] { return closing_ || running_ > 0 || !queue_.empty(); });
  return !closing_;
}

void Scheduler::tick() {
  end_cancelled();
  admit();
  prefill();
  decode();
}

void Scheduler::end_cancelled() {
  const uint64_t cancels = cancels_->load(std::memory_order_acquire);
  if (cancels == cancels_seen_) return;
  cancels_seen_ = cancels;
  std::vector<std::shared_ptr<Request>> dropped;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(queue_, [&](const std::shared_ptr<Request>& request) {
      if (!request->cancel_requested()) return false;
      stats_.drop(FinishReason::kCancelled);
      dropped.push_back(request);
      return true;
    });
  }
  for (const auto& request : dropped) request->finish(FinishReason::kCancelled, {}, now_ns());
  for (Slot& slot : slots_) {
    if (slot.request && slot.request->cancel_requested()) retire(slot, FinishReason::kCancelled);
  }
}

// The oldest request that still wants to run, counted as admitted; null when nobody waits.
std::shared_ptr<Request> Scheduler::next_waiting() {
  while (true) {
    std::shared_ptr<Request> request;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return nullptr;
      request = std::move(queue_.front());
      queue_.pop_front();
      if (!request->cancel_requested()) {
        stats_.admit();
        return request;
      }
      stats_.drop(FinishReason::kCancelled);
    }
    request->finish(FinishReason::kCancelled, {}, now_ns());
  }
}

// A slot holds `context` positions and no request needs more: taking the slot reserves prompt and new tokens.
void Scheduler::admit() {
  for (size_t i = 0; i < slots_.size() && running_ < limits_.slots; ++i) {
    Slot& slot = slots_[i];
    if (slot.request) continue;
    slot.request = next_waiting();
    if (!slot.request) return;
    slot.filled = 0;
    slot.decoding = false;
    slot.request->enter(RequestState::kPrefill, now_ns());
    prefilling_.push_back(static_cast<int>(i));
    ++running_;
  }
}

void Scheduler::retire(Slot& slot, FinishReason reason, std::string error) {
  const std::shared_ptr<Request> request = std::move(slot.request);
  slot.request = nullptr;
  std::erase(prefilling_, static_cast<int>(&slot - slots_.data()));
  --running_;
  stats_.leave(reason);  // before the request is done: who has its result finds it counted
  request->finish(reason, std::move(error), now_ns());
}

void Scheduler::end_all(FinishReason reason, const std::string& error) {
  for (Slot& slot : slots_) {
    if (slot.request) retire(slot, reason, error);
  }
  std::deque<std::shared_ptr<Request>> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(queue_);
    for (size_t i = 0; i < left.size(); ++i) stats_.drop(reason);
  }
  for (const auto& request : left) request->finish(reason, error, now_ns());
}

}  // namespace paceline::runtime
