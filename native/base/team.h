// The threads of one rank: fork-join, the caller is one of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/nodes.h"

namespace paceline {

// A waiter spins for about 2,000 pauses and then sleeps on a futex; it sleeps at once where the teams of this process together
// hold more threads than there are processors. Idle teams sleep. One thread at a time may call run(), always the same or not.
class Team {
 public:
  // `threads` counts the caller: 1 starts none. `oversubscribed` forbids spinning whatever the count says. `homes`, unless empty:
  // where each of the threads stays; the caller is left where it is.
  explicit Team(int threads, bool oversubscribed = false, std::vector<Processors> homes = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(thread, threads) once on every thread (the caller is thread 0) and returns when all are done. The first exception
  // that a body throws is thrown again here. Not reentrant.
  template <typename Body>
  void run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_erased([](void* context, int thread, int threads) { (*static_cast<Plain*>(context))(thread, threads); },
               const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Task = void (*)(void* context, int thread, int threads);

  void run_erased(Task task, void* context);
  void serve(int thread);
  void call(int thread) noexcept;
  bool may_spin() const;
  template <typename T, typename Done>
  void wait(const std::atomic<T>& value, Done done) const;

  const bool oversubscribed_;
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
  alignas(64) std::atomic<uint32_t> epoch_{0};   // counts run() calls; workers wait for the next
  alignas(64) std::atomic<int32_t> pending_{0};  // workers still busy with this run()
  alignas(64) std::atomic<bool> closing_{false};
  std::vector<std::thread> workers_;
};

// Threads of all living teams of this process, callers included.
int team_threads_alive();

}  // namespace paceline
