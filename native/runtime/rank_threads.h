// The host threads of the ranks: fork-join, the calling thread is rank 0.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "base/nodes.h"
#include "parallel/futex.h"

namespace paceline::runtime {

class RankThreads {
 public:
  // `homes`: one a rank, where its thread stays (empty: anywhere); the calling thread is left where it is. `spins`: pauses an
  // idle rank spins for the next call before it sleeps.
  RankThreads(const std::vector<Processors>& homes, int spins);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Calls body(rank) on every rank's thread and returns when all are done. `body` must not throw. One caller at a time.
  void run(const std::function<void(int rank)>& body);

 private:
  void serve(int rank, const Processors& home);

  const int spins_;
  const std::function<void(int)>* body_ = nullptr;  // null: end
  parallel::WaitWord calls_;                        // counts run(); the ranks wait for the next
  std::atomic<int> pending_{0};                     // ranks still busy
  parallel::WaitWord finished_;                     // counts calls that all ranks have done
  std::vector<std::thread> threads_;                // of ranks 1 and up
};

}  // namespace paceline::runtime
