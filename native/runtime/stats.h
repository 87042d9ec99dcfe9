// The engine's counters. They add up at every moment, under a mutex of their own:
//   submitted == refused + waiting + dropped + admitted
//   admitted + dropped == running + finished + cancelled + closed + failed
//   steps     == prefill_steps + decode_steps
//   sum(rows_per_step) == decode_steps since the last reset_peaks()
// `dropped` were cancelled, closed or failed while they waited; they count under their outcome, too. running <= slots,
// peak_running >= running, peak_waiting >= waiting.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "runtime/request.h"

namespace paceline::runtime {

struct Counters {
  uint64_t submitted = 0;  // calls of submit that reached an open engine
  uint64_t refused = 0;    // could never fit, or the queue was full
  uint64_t waiting = 0;    // now
  uint64_t dropped = 0;    // ended without having been admitted
  uint64_t admitted = 0;
  uint64_t running = 0;   // now
  uint64_t finished = 0;  // reached their length or a stop id
  uint64_t cancelled = 0;
  uint64_t closed = 0;        // unfinished when the engine closed
  uint64_t failed = 0;        // ended by an error
  uint64_t peak_running = 0;  // since the last reset
  uint64_t peak_waiting = 0;  // since the last reset
  uint64_t steps = 0;
  uint64_t prefill_steps = 0;
  uint64_t decode_steps = 0;
  std::map<int, uint64_t> rows_per_step;  // rows of a decode step -> how many such steps since the last reset
  double prefill_seconds = 0;             // inside prefill steps
  double decode_seconds = 0;              // inside decode steps
  uint64_t prompt_tokens = 0;             // rows of prefill steps
  uint64_t generated_tokens = 0;          // committed
};

class Stats {
 public:
  Counters read() const;
  void reset_peaks();  // peaks start from what is now, the histogram from nothing

  void refuse();
  void enqueue();
  void drop(FinishReason reason);  // from the queue, without admission
  void admit();
  void leave(FinishReason reason);  // from running
  void commit();
  void prefill_step(int rows, double seconds);
  void decode_step(int rows, double seconds);

 private:
  void count(FinishReason reason);  // with the mutex held

  mutable std::mutex mutex_;
  Counters counters_;
};

}  // namespace paceline::runtime
