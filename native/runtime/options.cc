#include "runtime/options.h"

#include <algorithm>

#include "base/cpu.h"
#include "base/error.h"
#include "runtime/devices.h"

namespace paceline::runtime {
namespace {

constexpr int kMaxRanks = 64;
constexpr int kMaxSlots = 1024;
constexpr int kMaxPrefillRows = 8192;
constexpr int kMaxContext = 1'048'576;
constexpr int kMaxQueue = 1'000'000;

void require_range(const char* option, int64_t value, int64_t low, int64_t high) {
  check<ConfigError>(value >= low && value <= high, option, " = ", value, " cannot be served: it must be within ", low, " .. ",
                     high);
}

}  // namespace

void validate(const EngineOptions& o) {
  check<ConfigError>(o.mode == "serial" || o.mode == "batch", "mode = \"", o.mode,
                     "\" cannot be served: it must be serial or batch");
  require_range("tp", o.tp, 1, kMaxRanks);
  validate_device(o);
  require_range("slots", o.slots, 1, kMaxSlots);
  require_range("context", o.context, 2, kMaxContext);
  require_range("threads", o.threads, 0, 4096);
  require_range("prefill_rows", o.prefill_rows, 1, kMaxPrefillRows);
  require_range("queue_limit", o.queue_limit, 1, kMaxQueue);
  require_range("weight_bytes", o.weight_bytes, 0, INT64_MAX);
}

Mode mode_of(const EngineOptions& options) { return options.mode == "serial" ? Mode::kSerial : Mode::kBatch; }

int slots_in_use(const EngineOptions& options) { return mode_of(options) == Mode::kSerial ? 1 : options.slots; }

model::Capacity capacity_of(const EngineOptions& options) {
  const int slots = slots_in_use(options);
  return {.slots = slots, .context = options.context, .rows = std::max(options.prefill_rows, slots)};
}

int threads_per_rank(const EngineOptions& options) {
  const int threads = options.threads > 0 ? options.threads : available_cpus();
  return std::max(1, threads / options.tp);
}

std::vector<Processors> homes_of(const EngineOptions& options) {
  if (!on_cpu(options)) return {};
  return homes_on(memory_nodes(options.nodes), options.tp * threads_per_rank(options));
}

bool oversubscribed(const EngineOptions& options) { return threads_per_rank(options) * options.tp > available_cpus(); }

}  // namespace paceline::runtime
