#include "runtime/devices.h"

#include <charconv>

#include "base/error.h"
#include "ops/cpu/backend.h"
#include "runtime/memory_plan.h"
#if defined(PACELINE_CUDA)
#include "ops/cuda/backend.h"
#endif

namespace paceline::runtime {
namespace {

constexpr std::string_view kCuda = "cuda:";

// The indices of "cuda:0" or "cuda:0,1".
std::vector<int> cuda_indices(const std::string& device) {
  std::vector<int> indices;
  const char* at = device.data() + kCuda.size();
  const char* end = device.data() + device.size();
  while (true) {
    int index = 0;
    const auto [next, error] = std::from_chars(at, end, index);
    check<ConfigError>(error == std::errc() && index >= 0 && (next == end || *next == ','), "device = \"", device,
                       "\" cannot be served: it must be cpu or cuda:N");
    indices.push_back(index);
    if (next == end) return indices;
    at = next + 1;
  }
}

#if !defined(PACELINE_CUDA)
[[noreturn]] void refuse_cuda(const std::string& device) {
  throw ConfigError(concat("device = \"", device, "\" cannot be served: this build has the cpu backend alone"));
}
#endif

}  // namespace

std::vector<std::string> backends() {
#if defined(PACELINE_CUDA)
  return {"cpu", "cuda"};
#else
  return {"cpu"};
#endif
}

std::vector<Device> devices() {
  std::vector<Device> found;
#if defined(PACELINE_CUDA)
  for (const ops::CudaDevice& device : ops::cuda_devices()) {
    found.push_back({concat(kCuda, device.index), device.name, device.capability, device.total_bytes});
  }
#endif
  return found;
}

bool on_cpu(const EngineOptions& options) { return options.device == "cpu"; }

void validate_device(const EngineOptions& options) {
  if (on_cpu(options)) return;
  check<ConfigError>(options.device.starts_with(kCuda), "device = \"", options.device,
                     "\" cannot be served: it must be cpu or cuda:N");
  const std::vector<int> indices = cuda_indices(options.device);
  check<ConfigError>(indices.size() == 1, "device = \"", options.device,
                     "\" cannot be served: tensor parallelism on GPUs has not landed yet, name one device");
  check<ConfigError>(options.tp == 1, "tp = ", options.tp, " cannot be served on device = \"", options.device,
                     "\": it must be 1, the number of devices");
#if defined(PACELINE_CUDA)
  ops::require_cuda_device(indices[0]);
#else
  refuse_cuda(options.device);
#endif
}

uint64_t available_memory(const EngineOptions& options) {
  if (on_cpu(options)) return available_memory();
#if defined(PACELINE_CUDA)
  return ops::cuda_free_bytes(cuda_indices(options.device)[0]);
#else
  refuse_cuda(options.device);
#endif
}

OpsFactory backend_of(const EngineOptions& options, [[maybe_unused]] const std::vector<Processors>& homes) {
  if (on_cpu(options)) {
    const ops::CpuOptions common = {
        .isa = options.isa, .threads = threads_per_rank(options), .oversubscribed = oversubscribed(options)};
    return [common, homes](int rank) {
      ops::CpuOptions cpu = common;
      const auto first = homes.begin() + (homes.empty() ? 0 : rank * cpu.threads);
      if (!homes.empty()) cpu.homes.assign(first, first + cpu.threads);
      return ops::make_cpu_ops(cpu);
    };
  }
#if defined(PACELINE_CUDA)
  const std::vector<int> indices = cuda_indices(options.device);
  return [indices](int rank) { return ops::make_cuda_ops(indices[static_cast<size_t>(rank)]); };
#else
  refuse_cuda(options.device);
#endif
}

}  // namespace paceline::runtime
