#include "base/nodes.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace paceline {
namespace {

// A list of the kernel's, such as "0-3,8-11"; what is no number ends it.
Processors parse_list(const std::string& text) {
  Processors found;
  std::istringstream in(text);
  for (int first = 0; in >> first;) {
    int last = first;
    if (in.peek() == '-') in.ignore() >> last;
    for (int cpu = first; cpu <= std::min(last, CPU_SETSIZE - 1); ++cpu) found.push_back(cpu);
    if (in.peek() == ',') in.ignore();
  }
  return found;
}

// N of a folder "nodeN", else -1.
int number_of(const std::string& name) {
  if (name.size() < 5 || name.size() > 9 || name.rfind("node", 0) != 0) return -1;
  if (!std::all_of(name.begin() + 4, name.end(), [](unsigned char c) { return c >= '0' && c <= '9'; })) return -1;
  return std::stoi(name.substr(4));
}

cpu_set_t as_set(const Processors& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : processors) CPU_SET(cpu, &set);
  return set;
}

}  // namespace

std::vector<Processors> memory_nodes(const std::string& root) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return {};
  std::map<int, Processors> by_number;
  std::error_code failed;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry(root, failed); entry != end; entry.increment(failed)) {
    const int number = number_of(entry->path().filename().string());
    if (number < 0) continue;
    std::ifstream file(entry->path() / "cpulist");
    std::string line;
    std::getline(file, line);
    for (const int cpu : parse_list(line)) {
      if (cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &mask)) by_number[number].push_back(cpu);
    }
  }
  std::vector<Processors> nodes;
  for (auto& [number, processors] : by_number) nodes.push_back(std::move(processors));
  return nodes;
}

std::vector<Processors> homes_on(const std::vector<Processors>& nodes, int threads) {
  if (nodes.size() < 2) return {};
  size_t all = 0;
  for (const Processors& node : nodes) all += node.size();
  std::vector<Processors> homes;
  size_t node = 0, behind = nodes[0].size();  // processors of the nodes up to this one
  for (int thread = 0; thread < threads; ++thread) {
    while (2 * behind * static_cast<size_t>(threads) < (2 * static_cast<size_t>(thread) + 1) * all)
      behind += nodes[++node].size();
    homes.push_back(nodes[node]);
  }
  return homes;
}

void stay_on(const Processors& processors) {
  if (processors.empty()) return;
  const cpu_set_t set = as_set(processors);
  (void)sched_setaffinity(0, sizeof(set), &set);
}

Visit::Visit(const Processors& processors) {
  CPU_ZERO(&before_);
  if (processors.empty() || sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  const cpu_set_t set = as_set(processors);
  changed_ = sched_setaffinity(0, sizeof(set), &set) == 0;
}

Visit::~Visit() {
  if (changed_) (void)sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace paceline
