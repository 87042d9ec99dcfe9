#include "parallel/barrier.h"

namespace paceline::parallel {

void Barrier::arrive_and_wait() {
  const uint32_t generation = generation_.load();
  if (aborted_.load(std::memory_order_acquire)) throw Aborted();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.add_and_wake(1);
  } else {
    generation_.wait_while(generation, spins_);
  }
  if (aborted_.load(std::memory_order_acquire)) throw Aborted();
}

void Barrier::abort() noexcept {
  aborted_.store(true, std::memory_order_release);
  generation_.add_and_wake(1);
}

}  // namespace paceline::parallel
