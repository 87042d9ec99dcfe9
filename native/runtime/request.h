// One request and its handle: what was asked for, how far it is, what came out.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/sampler.h"

namespace paceline::runtime {

enum class RequestState : uint8_t { kWaiting, kPrefill, kDecode, kDone };
enum class FinishReason : uint8_t { kNone, kLength, kStop, kCancelled, kClosed, kError };

struct RequestSpec {
  std::vector<int32_t> prompt;
  int max_new_tokens = 1;
  std::vector<int32_t> stop_ids;  // a token among them ends the request; it is the last of its tokens
  bool keep_logits = false;
  Sampling sampling;

  bool stops_at(int32_t token) const;
  int64_t positions() const { return static_cast<int64_t>(prompt.size()) + max_new_tokens; }
};

int64_t now_ns();  // CLOCK_MONOTONIC

class Request {
 public:
  // `cancels` is raised by every cancellation, so that the scheduler looks through its queue only when there was one.
  Request(uint64_t id, RequestSpec spec, std::shared_ptr<std::atomic<uint64_t>> cancels)
      : id_(id), spec_(std::move(spec)), submitted_ns_(now_ns()), cancels_(std::move(cancels)) {}

  // From any thread.
  uint64_t id() const { return id_; }
  const RequestSpec& spec() const { return spec_; }
  int64_t submitted_ns() const { return submitted_ns_; }
  int64_t admitted_ns() const;  // 0 while it waits
  int64_t finished_ns() const;  // 0 until it is done
  RequestState state() const;
  FinishReason finish_reason() const;
  std::string error() const;  // empty unless the reason is kError
  std::vector<int32_t> tokens() const;
  std::vector<int64_t> token_times_ns() const;  // [tokens]
  std::vector<float> logits() const;            // [tokens, vocabulary], empty unless asked for
  bool wait(std::chrono::nanoseconds timeout);  // whether it is done
  size_t wait_tokens(size_t seen,
                     std::chrono::nanoseconds timeout);  // their number, once it exceeds `seen` or the request is done
  void cancel();                                         // takes effect before the next token; nothing once it is done

  // From the scheduler.
  bool cancel_requested() const { return cancelled_.load(std::memory_order_acquire); }
  void enter(RequestState state, int64_t at_ns);
  size_t commit(int32_t token, int64_t at_ns, std::span<const float> logits);  // returns the number of tokens
  void finish(FinishReason reason, std::string error, int64_t at_ns);

 private:
  const uint64_t id_;
  const RequestSpec spec_;
  const int64_t submitted_ns_;
  const std::shared_ptr<std::atomic<uint64_t>> cancels_;
  std::atomic<bool> cancelled_{false};

  mutable std::mutex mutex_;  // of everything below
  std::condition_variable done_changed_;
  std::condition_variable tokens_changed_;
  RequestState state_ = RequestState::kWaiting;
  FinishReason reason_ = FinishReason::kNone;
  std::string error_;
  int64_t admitted_ns_ = 0;
  int64_t finished_ns_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> times_ns_;
  std::vector<float> logits_;
};

}  // namespace paceline::runtime
