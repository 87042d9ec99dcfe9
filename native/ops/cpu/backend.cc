#include "ops/cpu/backend.h"

#include <cstring>

#include "base/cpu.h"
#include "base/error.h"
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops {
namespace {

struct Path {
  const char* name;
  bool usable;
  const cpu::VectorKernels& (*vector)();
  cpu::LinearKernel linear;
};

const std::vector<Path>& paths() {
  static const std::vector<Path> all = [] {
    std::vector<Path> found;
#if defined(PACELINE_X86)
    const CpuFeatures& has = cpu_features();
    found.push_back({"amx", has.amx, cpu::avx512_kernels, cpu::amx_linear});
    found.push_back({"avx512_bf16", has.avx512_bf16, cpu::avx512_kernels, cpu::avx512_bf16_linear});
    found.push_back({"avx512", has.avx512, cpu::avx512_kernels, cpu::avx512_linear});
    found.push_back({"avx2", has.avx2, cpu::avx2_kernels, cpu::avx2_linear});
#endif
    found.push_back({"portable", true, cpu::portable_kernels, cpu::portable_linear});
    return found;
  }();
  return all;
}

const Path& find_path(const std::string& isa) {
  std::string names;
  for (const Path& path : paths()) {
    if (isa == path.name || (isa == "auto" && path.usable)) {
      check<ConfigError>(path.usable, "isa is \"", isa, "\", which this processor cannot run");
      return path;
    }
    names += concat(", \"", path.name, "\"");
  }
  throw ConfigError(concat("isa is \"", isa, "\", allowed are \"auto\"", names));
}

}  // namespace

std::vector<IsaPath> cpu_isa_paths() {
  std::vector<IsaPath> all;
  for (const Path& path : paths()) all.push_back({path.name, path.usable});
  return all;
}

std::string resolve_isa(const std::string& isa) { return find_path(isa).name; }

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options) {
  const Path& path = find_path(options.isa);
  return std::make_unique<cpu::CpuOps>(options, path.vector(), path.linear);
}

}  // namespace paceline::ops

namespace paceline::ops::cpu {
namespace {

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(size_t bytes) : memory_(bytes) {}
  void* data() override { return memory_.data(); }
  size_t size() const override { return memory_.size(); }

 private:
  AlignedBuffer memory_;
};

}  // namespace

CpuOps::CpuOps(const CpuOptions& options, const VectorKernels& vector, LinearKernel linear)
    : team_(options.threads, options.oversubscribed, options.homes),
      vector_(vector),
      linear_(linear),
      scratch_(options.threads) {}

std::unique_ptr<Linear> CpuOps::pack(std::span<const LinearPart> parts) { return std::make_unique<PackedLinear>(parts, team_); }

std::unique_ptr<Buffer> CpuOps::allocate(size_t bytes) { return std::make_unique<HostBuffer>(bytes); }

void CpuOps::upload(void* to, const void* from_host, size_t bytes) { std::memcpy(to, from_host, bytes); }

void CpuOps::download(void* to_host, const void* from, size_t bytes) { std::memcpy(to_host, from, bytes); }

}  // namespace paceline::ops::cpu
