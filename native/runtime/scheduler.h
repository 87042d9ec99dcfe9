// Continuous batching: one thread that lets requests into slots, builds steps, and commits their tokens.
//
// A request goes WAITING -> PREFILL -> DECODE -> DONE. A tick takes out what was cancelled, admits in order of arrival while a
// slot is free, runs at most one prefill step and then one decode step over every decoding slot. Serial mode is the same with one
// slot.
//
// What is computed for a request never depends on the others: its prompt is cut into chunks of kChunk rows from its start, and
// the form of DeltaNet follows from its own length. So its tokens are bitwise the same alone, in any batch and in any slot.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "model/step.h"
#include "runtime/rank_group.h"
#include "runtime/request.h"
#include "runtime/stats.h"

namespace paceline::runtime {

struct Limits {
  int slots;
  int context;       // positions a slot can hold
  int prefill_rows;  // rows of one prefill step
  int queue_limit;
  int vocab_size;
};

class Scheduler {
 public:
  Scheduler(RankGroup& ranks, const Limits& limits, Stats& stats);
  ~Scheduler() { close(); }

  void start();

  // From any thread. Throws RequestRefused with the numbers of what can never fit or of a full queue, EngineClosed after close(),
  // Error once a rank has failed.
  std::shared_ptr<Request> submit(RequestSpec spec);

  // The same for several at once: the scheduler sees all of them or none. Nothing is queued when one is refused.
  std::vector<std::shared_ptr<Request>> submit_all(std::vector<RequestSpec> specs);

  // Ends every request that is not done as "closed". Returns when the thread has ended. From any thread, any number of times.
  void close();

 private:
  struct Slot {
    std::shared_ptr<Request> request;  // null: free
    int filled = 0;                    // positions in the caches
    int32_t token = 0;                 // the last one committed, yet to be fed
    bool decoding = false;
    int prompt_size() const { return static_cast<int>(request->spec().prompt.size()); }
  };

  void loop();
  bool wait_for_work();  // false: close
  void tick();
  void end_cancelled();
  std::shared_ptr<Request> next_waiting();
  void admit();
  void prefill();
  void decode();

  std::vector<int> pick_chunks();
  int chunk_rows(const Slot& slot) const;
  void add_prefill_rows(const Slot& slot, int index, int rows);
  void add_wanted(const Slot& slot, int row);
  double run_step();  // seconds
  void commit(Slot& slot, size_t row, int64_t at_ns);
  int32_t choose(const Request& request, size_t row, size_t count) const;  // throws Error on logits that are not finite
  void retire(Slot& slot, FinishReason reason, std::string error = {});
  void end_all(FinishReason reason, const std::string& error);

  void refuse_impossible(const RequestSpec& spec) const;

  RankGroup& ranks_;
  const Limits limits_;
  Stats& stats_;
  const std::shared_ptr<std::atomic<uint64_t>> cancels_ = std::make_shared<std::atomic<uint64_t>>(0);

  std::mutex mutex_;  // of the queue and what follows it
  std::condition_variable work_;
  std::deque<std::shared_ptr<Request>> queue_;
  uint64_t next_id_ = 1;
  bool closing_ = false;
  std::string failure_;  // not empty: a rank failed

  // The scheduler thread's own.
  std::vector<Slot> slots_;
  std::deque<int> prefilling_;  // slots, the one served longest ago first
  int running_ = 0;
  uint64_t cancels_seen_ = 0;
  model::Step step_;
  model::StepOutput output_;

  std::mutex closing_mutex_;  // of the join
  std::thread thread_;
};

}  // namespace paceline::runtime
