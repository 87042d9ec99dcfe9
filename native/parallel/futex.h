// Waiting on a 32-bit word: a short spin where the waiters have cores of their own, then a sleep in the kernel.
#pragma once

#include <atomic>
#include <cstdint>

namespace paceline::parallel {

// A word that threads wait on. A waker that changes it always wakes; the system call is made only when somebody sleeps.
class WaitWord {
 public:
  uint32_t load() const { return word_.load(std::memory_order_acquire); }

  // Returns once the word differs from `seen`. Spins `spins` pauses first; 0 goes to sleep at once.
  void wait_while(uint32_t seen, int spins);

  // Adds `delta` to the word and wakes every waiter. Returns the new value.
  uint32_t add_and_wake(uint32_t delta);

 private:
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace paceline::parallel
