// The machine's memory nodes (NUMA), and threads that stay on one, beside the memory that they touched first.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

namespace paceline {

inline constexpr const char* kMemoryNodes = "/sys/devices/system/node";  // of the running kernel

using Processors = std::vector<int>;  // their numbers, as the kernel counts them

// The nodes that sysfs lists in `root`, each with those of its processors that this thread may use; nodes without one are left
// out.
std::vector<Processors> memory_nodes(const std::string& root);

// Where each of `threads` threads stays: they lie on the nodes in order, on each as many as its share of all processors
// (hyper-threads count). Empty, for anywhere, where there are fewer than two nodes.
std::vector<Processors> homes_on(const std::vector<Processors>& nodes, int threads);

// Keeps the calling thread on these processors from now on; empty: nothing changes. Advice: where the kernel refuses, it may go
// on anywhere.
void stay_on(const Processors& processors);

// The same for as long as this lives: for a thread that belongs to somebody else.
class Visit {
 public:
  explicit Visit(const Processors& processors);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  bool changed_ = false;
  cpu_set_t before_;
};

}  // namespace paceline
