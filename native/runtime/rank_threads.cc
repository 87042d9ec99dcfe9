#include "runtime/rank_threads.h"

#include <pthread.h>

#include <string>

namespace paceline::runtime {

RankThreads::RankThreads(const std::vector<Processors>& homes, int spins) : spins_(spins) {
  const int ranks = static_cast<int>(homes.size());
  threads_.reserve(homes.size() - 1);
  for (int rank = 1; rank < ranks; ++rank) {
    threads_.emplace_back([this, rank, home = homes[static_cast<size_t>(rank)]] { serve(rank, home); });
  }
}

RankThreads::~RankThreads() {
  body_ = nullptr;
  calls_.add_and_wake(1);
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::run(const std::function<void(int)>& body) {
  if (threads_.empty()) {
    body(0);
    return;
  }
  const uint32_t before = finished_.load();
  body_ = &body;
  pending_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  calls_.add_and_wake(1);
  body(0);
  finished_.wait_while(before, spins_);
}

void RankThreads::serve(int rank, const Processors& home) {
  stay_on(home);
  pthread_setname_np(pthread_self(), ("rank-" + std::to_string(rank)).c_str());
  for (uint32_t seen = 0;; ++seen) {
    calls_.wait_while(seen, spins_);
    if (body_ == nullptr) return;
    (*body_)(rank);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) finished_.add_and_wake(1);
  }
}

}  // namespace paceline::runtime
