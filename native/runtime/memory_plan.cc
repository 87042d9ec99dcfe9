#include "runtime/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "model/rank_model.h"
#include "runtime/devices.h"

namespace paceline::runtime {
namespace {

constexpr uint64_t kUnknown = UINT64_MAX;

// The first number of a file; kUnknown where there is none ("max" included).
uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : kUnknown;
}

uint64_t machine_available() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("MemAvailable:")) continue;
    std::istringstream text(line.substr(13));
    uint64_t kib = 0;
    if (text >> kib) return kib * 1024;
  }
  return kUnknown;
}

// What a limit leaves. Page cache counts as usage there but is given back under pressure, so inactive file pages are added again.
uint64_t left_of(const std::string& folder, const char* limit_file, const char* usage_file, const char* cache_key) {
  const uint64_t limit = number_in(folder + limit_file);
  const uint64_t usage = number_in(folder + usage_file);
  if (limit == kUnknown || usage == kUnknown) return kUnknown;
  uint64_t cache = 0;
  std::ifstream stat(folder + "/memory.stat");
  std::string key;
  uint64_t value = 0;
  while (stat >> key >> value) {
    if (key == cache_key) cache = value;
  }
  const uint64_t used = usage > cache ? usage - cache : 0;
  return limit > used ? limit - used : 0;
}

// Every cgroup from this process's own up to the root may hold a limit.
uint64_t cgroup_available() {
  uint64_t least = kUnknown;
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == std::string::npos) continue;
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      least = std::min(least, unified ? left_of("/sys/fs/cgroup" + path, "/memory.max", "/memory.current", "inactive_file")
                                      : left_of("/sys/fs/cgroup/memory" + path, "/memory.limit_in_bytes",
                                                "/memory.usage_in_bytes", "total_inactive_file"));
      if (path.empty()) break;
    }
  }
  return least;
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

MemoryPlan plan_memory(const model::ModelConfig& config, const EngineOptions& options) {
  MemoryPlan plan;
  const model::Capacity capacity = capacity_of(options);
  for (int rank = 0; rank < options.tp; ++rank) {
    const model::Shard shard = model::make_shard(config, rank, options.tp);
    const model::StateBytes bytes = model::state_bytes(config, shard, capacity);
    plan.kv_cache += bytes.kv_cache;
    plan.state += bytes.recurrent;
    plan.scratch += bytes.scratch;
    for (const model::TensorSpec& tensor : model::list_tensors(config, shard)) {
      if (tensor.kind == model::TensorKind::kMatrix) plan.weights += static_cast<uint64_t>(tensor.elements());
    }
  }
  const uint64_t message = static_cast<uint64_t>(capacity.rows) * static_cast<uint64_t>(config.hidden_size) * sizeof(float);
  plan.scratch += message * static_cast<uint64_t>(options.tp) * (options.tp > 1 ? 2 : 1);
  plan.weights = std::max(plan.weights, static_cast<uint64_t>(options.weight_bytes));
  if (!on_cpu(options)) {  // a copy of the table, as bfloat16 or half
    plan.weights += static_cast<uint64_t>(config.vocab_size) * static_cast<uint64_t>(config.hidden_size) * sizeof(uint16_t);
  }
  return plan;
}

uint64_t available_memory() { return std::min(machine_available(), cgroup_available()); }

void require_memory(const MemoryPlan& plan, const EngineOptions& options, uint64_t available) {
  if (plan.sum() <= available) return;
  const uint64_t caches = plan.kv_cache + plan.state;
  std::string advice;
  if (caches >= plan.weights && caches >= plan.scratch) {
    advice = concat("lower slots (now ", slots_in_use(options), ") or context (now ", options.context, ")");
  } else if (plan.scratch >= plan.weights) {
    advice = concat("lower prefill_rows (now ", options.prefill_rows, ")");
  } else {
    advice = "use a smaller or an FP8 checkpoint";
  }
  throw OutOfMemoryError(concat("the engine needs ", bytes_text(plan.sum()), " (", options.weight_bytes > 0 ? "" : "at least ",
                                bytes_text(plan.weights), " of weights, ", bytes_text(plan.kv_cache), " of KV cache, ",
                                bytes_text(plan.state), " of DeltaNet state, ", bytes_text(plan.scratch), " of scratch), ",
                                bytes_text(available), " are available: ", advice));
}

}  // namespace paceline::runtime
