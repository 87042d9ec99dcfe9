#include "parallel/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <climits>

#include "base/cpu.h"

namespace paceline::parallel {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is a plain 32-bit word");

void WaitWord::wait_while(uint32_t seen, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (word_.load(std::memory_order_acquire) != seen) return;
    cpu_pause();
  }
  // Sequentially consistent on both sides: either the waker sees the sleeper, or the kernel sees the changed word and does not
  // sleep.
  while (word_.load(std::memory_order_seq_cst) == seen) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

uint32_t WaitWord::add_and_wake(uint32_t delta) {
  const uint32_t value = word_.fetch_add(delta, std::memory_order_seq_cst) + delta;
  if (sleepers_.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  return value;
}

}  // namespace paceline::parallel
