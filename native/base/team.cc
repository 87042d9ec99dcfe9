#include "base/team.h"

#include <utility>

#include "base/cpu.h"
#include "base/error.h"

namespace paceline {
namespace {

constexpr int kSpins = 2000;  // pauses before a waiter sleeps: some tens of microseconds

std::atomic<int> alive{0};

}  // namespace

int team_threads_alive() { return alive.load(std::memory_order_relaxed); }

Team::Team(int threads, bool oversubscribed, std::vector<Processors> homes) : oversubscribed_(oversubscribed) {
  check<ConfigError>(threads >= 1 && threads <= 4096, "threads is ", threads, ", allowed are 1 to 4096");
  alive.fetch_add(threads, std::memory_order_relaxed);
  workers_.reserve(threads - 1);
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread, home = homes.empty() ? Processors{} : std::move(homes[static_cast<size_t>(thread)])] {
      stay_on(home);
      serve(thread);
    });
  }
}

Team::~Team() {
  alive.fetch_sub(threads(), std::memory_order_relaxed);
  closing_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool Team::may_spin() const { return !oversubscribed_ && team_threads_alive() <= available_cpus(); }

// Returns once done(value) holds.
template <typename T, typename Done>
void Team::wait(const std::atomic<T>& value, Done done) const {
  if (may_spin()) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (done(value.load(std::memory_order_acquire))) return;
      cpu_pause();
    }
  }
  for (T seen = value.load(std::memory_order_acquire); !done(seen); seen = value.load(std::memory_order_acquire)) {
    value.wait(seen, std::memory_order_acquire);
  }
}

void Team::call(int thread) noexcept {
  try {
    task_(context_, thread, threads());
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void Team::serve(int thread) {
  uint32_t seen = 0;
  while (true) {
    wait(epoch_, [seen](uint32_t epoch) { return epoch != seen; });
    ++seen;
    if (closing_.load(std::memory_order_relaxed)) return;
    call(thread);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

void Team::run_erased(Task task, void* context) {
  task_ = task;
  context_ = context;
  if (!workers_.empty()) {
    pending_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }
  call(0);
  if (!workers_.empty()) wait(pending_, [](int32_t pending) { return pending == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace paceline
