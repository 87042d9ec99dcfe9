#include "runtime/stats.h"

#include <algorithm>

namespace paceline::runtime {

Counters Stats::read() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void Stats::reset_peaks() {
  const std::lock_guard lock(mutex_);
  counters_.peak_running = counters_.running;
  counters_.peak_waiting = counters_.waiting;
  counters_.rows_per_step.clear();
}

void Stats::refuse() {
  const std::lock_guard lock(mutex_);
  ++counters_.submitted;
  ++counters_.refused;
}

void Stats::enqueue() {
  const std::lock_guard lock(mutex_);
  ++counters_.submitted;
  ++counters_.waiting;
  counters_.peak_waiting = std::max(counters_.peak_waiting, counters_.waiting);
}

void Stats::drop(FinishReason reason) {
  const std::lock_guard lock(mutex_);
  --counters_.waiting;
  ++counters_.dropped;
  count(reason);
}

void Stats::admit() {
  const std::lock_guard lock(mutex_);
  --counters_.waiting;
  ++counters_.admitted;
  ++counters_.running;
  counters_.peak_running = std::max(counters_.peak_running, counters_.running);
}

void Stats::leave(FinishReason reason) {
  const std::lock_guard lock(mutex_);
  --counters_.running;
  count(reason);
}

void Stats::count(FinishReason reason) {
  switch (reason) {
    case FinishReason::kCancelled:
      ++counters_.cancelled;
      break;
    case FinishReason::kClosed:
      ++counters_.closed;
      break;
    case FinishReason::kError:
      ++counters_.failed;
      break;
    default:
      ++counters_.finished;
      break;
  }
}

void Stats::commit() {
  const std::lock_guard lock(mutex_);
  ++counters_.generated_tokens;
}

void Stats::prefill_step(int rows, double seconds) {
  const std::lock_guard lock(mutex_);
  ++counters_.steps;
  ++counters_.prefill_steps;
  counters_.prefill_seconds += seconds;
  counters_.prompt_tokens += static_cast<uint64_t>(rows);
}

void Stats::decode_step(int rows, double seconds) {
  const std::lock_guard lock(mutex_);
  ++counters_.steps;
  ++counters_.decode_steps;
  counters_.decode_seconds += seconds;
  ++counters_.rows_per_step[rows];
}

}  // namespace paceline::runtime
