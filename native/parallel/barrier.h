// A barrier between the rank threads of one process that an error in one of them can break.
#pragma once

#include <atomic>
#include <exception>

#include "parallel/futex.h"

namespace paceline::parallel {

// What the healthy ranks get when another rank failed: they are not the cause.
class Aborted : public std::exception {
 public:
  const char* what() const noexcept override { return "another rank failed"; }
};

class Barrier {
 public:
  Barrier(int parties, int spins) : parties_(static_cast<uint32_t>(parties)), spins_(spins) {}

  // Returns when all parties arrived. Throws Aborted once abort() was called, whether before, during or after the wait.
  void arrive_and_wait();

  // Releases every waiter with Aborted. For good: what the parties had half done cannot be resumed.
  void abort() noexcept;

 private:
  const uint32_t parties_;
  const int spins_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) WaitWord generation_;
  std::atomic<bool> aborted_{false};
};

}  // namespace paceline::parallel
