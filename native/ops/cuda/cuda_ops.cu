// One rank on one device: the interface over the kernels, with scratch memory and a graph per kind of step.
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/backend.h"
#include "ops/cuda/delta_net.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/linear/kernels.h"
#include "ops/cuda/linear/pack.h"
#include "ops/cuda/memory.h"

namespace paceline::ops {
namespace cuda {
namespace {

constexpr size_t kStagingBytes = size_t{1} << 20;

// Memory that grows on demand. What it outgrew stays, since captured graphs may point to it.
class Scratch {
 public:
  explicit Scratch(cudaStream_t stream) : stream_(stream) {}

  template <class T>
  T* at_least(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (buffers_.empty() || buffers_.back()->size() < bytes) buffers_.push_back(std::make_unique<DeviceBuffer>(bytes, stream_));
    return static_cast<T*>(buffers_.back()->data());
  }

 private:
  cudaStream_t stream_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
};

class CudaOps final : public Ops {
 public:
  explicit CudaOps(int device);
  ~CudaOps() override;

  std::unique_ptr<Linear> pack(std::span<const LinearPart> parts) override;
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  const void* place(const void* host, size_t bytes) override;
  void upload(void* to, const void* from_host, size_t bytes) override;
  void download(void* to_host, const void* from, size_t bytes) override;
  void embed(const Rows& rows, const void* table, DType dtype, int width, float* hidden) override;
  void rms_norm(const float* x, const float* weight, float eps, int rows, int width, uint16_t* out) override;
  void linear(const Linear& weight, const uint16_t* x, int rows, float* y, int ld_y) override;
  void swiglu(const float* gate_up, int rows, int width, uint16_t* out) override;
  void attention(const Rows& rows, const AttentionInput& in, const KvCache& cache, uint16_t* out) override;
  void delta_net(const Rows& rows, const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state, bool chunked,
                 uint16_t* out) override;
  void gather(const float* in, const int32_t* index, int count, int width, float* out) override;
  void argmax(const float* x, int rows, int width, int ld, float* value, int32_t* index) override;
  void add_partials(std::span<const float* const> partials, int64_t count, float* target) override;
  void replay(uint64_t key, const std::function<void()>& work) override;
  void synchronize() override;

 private:
  void enter() { check(cudaSetDevice(device_), "cudaSetDevice"); }
  void capture(uint64_t key, const std::function<void()>& work);

  int device_;
  int capability_ = 0;
  Launch where_{};
  std::unique_ptr<Packer> packer_;
  std::unique_ptr<PinnedBuffer> staging_;
  size_t staged_ = 0;  // bytes of staging_ that copies under way still read
  std::vector<std::unique_ptr<Buffer>> weights_;
  std::unordered_map<const void*, std::unique_ptr<DeviceBuffer>> placed_;
  std::unique_ptr<Scratch> query_, mixed_, padded_, best_value_, best_index_;
  std::unordered_map<uint64_t, cudaGraphExec_t> graphs_;  // null until the second step of its kind
};

CudaOps::CudaOps(int device) : device_(device) {
  enter();
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&where_.shared_optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "cudaDeviceGetAttribute");
  // A newer card may run code that was compiled for an older one: what counts is what the kernels were compiled for.
  capability_ = std::min(10 * major + minor, compiled_architecture());
  check(cudaStreamCreateWithFlags(&where_.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  where_.dependent = capability_ >= 90;
  if (capability_ >= 80) {
    prepare_skinny();
    prepare_tiled();
  }
  packer_ = std::make_unique<Packer>(where_);
  staging_ = std::make_unique<PinnedBuffer>(kStagingBytes);
  for (auto* scratch : {&query_, &mixed_, &padded_, &best_value_, &best_index_}) *scratch = std::make_unique<Scratch>(where_.stream);
}

CudaOps::~CudaOps() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(where_.stream);
  for (const auto& [key, graph] : graphs_) {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  cudaStreamDestroy(where_.stream);
}

std::unique_ptr<Linear> CudaOps::pack(std::span<const LinearPart> parts) {
  enter();
  return packer_->pack(parts, weights_);
}

std::unique_ptr<Buffer> CudaOps::allocate(size_t bytes) {
  enter();
  return std::make_unique<DeviceBuffer>(bytes, where_.stream);
}

const void* CudaOps::place(const void* host, size_t bytes) {
  enter();
  auto& buffer = placed_[host];
  if (!buffer) {
    buffer = std::make_unique<DeviceBuffer>(bytes, where_.stream);
    check(cudaMemcpyAsync(buffer->data(), host, bytes, cudaMemcpyHostToDevice, where_.stream), "copy of the embedding");
    check(cudaStreamSynchronize(where_.stream), "copy of the embedding");
  }
  return buffer->data();
}

void CudaOps::upload(void* to, const void* from_host, size_t bytes) {
  enter();
  if (staged_ + bytes > kStagingBytes) {
    check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, where_.stream), "upload");
    check(cudaStreamSynchronize(where_.stream), "upload");
    return;
  }
  auto* stage = static_cast<uint8_t*>(staging_->data()) + staged_;
  std::memcpy(stage, from_host, bytes);
  staged_ += (bytes + 255) / 256 * 256;
  check(cudaMemcpyAsync(to, stage, bytes, cudaMemcpyHostToDevice, where_.stream), "upload");
}

void CudaOps::download(void* to_host, const void* from, size_t bytes) {
  enter();
  check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, where_.stream), "download");
  synchronize();
}

void CudaOps::synchronize() {
  enter();
  check(cudaStreamSynchronize(where_.stream), "a step on the device");
  staged_ = 0;
}

void CudaOps::embed(const Rows& rows, const void* table, DType dtype, int width, float* hidden) {
  run_embed(where_, rows.token, rows.count, table, dtype, width, hidden);
}

void CudaOps::rms_norm(const float* x, const float* weight, float eps, int rows, int width, uint16_t* out) {
  run_rms_norm(where_, {.x = const_cast<float*>(x), .partial = nullptr, .weight = weight, .eps = eps, .width = width, .out = out}, rows);
}

void CudaOps::linear(const Linear& weight, const uint16_t* x, int rows, float* y, int ld_y) {
  const auto& w = static_cast<const CudaLinear&>(weight);
  const int ld = w.blocks * kBlock;
  if (ld != w.cols_) {
    uint16_t* padded = padded_->at_least<uint16_t>(static_cast<size_t>(rows) * ld);
    run_pad(where_, x, rows, static_cast<int>(w.cols_), w.lead, ld, padded);
    x = padded;
  }
  Products all{};
  all.count = w.part_count;
  all.x = x, all.ld_x = ld, all.m = rows, all.blocks = w.blocks;
  for (int i = 0; i < w.part_count; ++i) {
    const PackedPart& part = w.parts[i];
    all.product[i] = {part.data, part.scale, y + part.first, part.rows, part.groups, ld_y, 0};
  }
  if (capability_ < 80) {
    run_simt(where_, all);
  } else if (rows <= kSkinnyRows) {
    run_skinny(where_, all);
  } else {
    run_tiled(where_, all);
  }
}

void CudaOps::swiglu(const float* gate_up, int rows, int width, uint16_t* out) { run_swiglu(where_, gate_up, rows, width, out); }

void CudaOps::attention(const Rows& rows, const AttentionInput& in, const KvCache& cache, uint16_t* out) {
  paceline::check<ConfigError>(attention_fits(cache.head_dim), "head_dim = ", cache.head_dim, ": the CUDA backend serves up to 256");
  float* query = query_->at_least<float>(static_cast<size_t>(rows.count) * in.heads * cache.head_dim);
  run_attention(where_, {rows, in, cache, query, out});
}

void CudaOps::delta_net(const Rows& rows, const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state, bool,
                        uint16_t* out) {
  paceline::check<ConfigError>(delta_net_fits(shape), "linear_key_head_dim = ", shape.key_dim, ", linear_value_head_dim = ", shape.value_dim,
                               ", linear_conv_kernel = ", shape.kernel, ": the CUDA backend serves 32, 64, 128 or 256, up to 256, up to 8");
  float* mixed = mixed_->at_least<float>(static_cast<size_t>(rows.count) * shape.channels());
  run_delta_net(where_, {rows, shape, in, state, mixed, out});
}

void CudaOps::gather(const float* in, const int32_t* index, int count, int width, float* out) {
  run_gather(where_, in, index, count, width, out);
}

void CudaOps::argmax(const float* x, int rows, int width, int ld, float* value, int32_t* index) {
  const size_t count = static_cast<size_t>(rows) * kArgmaxParts;
  run_argmax(where_, x, rows, width, ld, {best_value_->at_least<float>(count), best_index_->at_least<int32_t>(count)}, value, index);
}

void CudaOps::add_partials(std::span<const float* const> partials, int64_t count, float* target) {
  run_add(where_, partials.data(), static_cast<int>(partials.size()), count, target);
}

// The first step of a kind runs as it is and lets scratch memory grow; the second is captured; later ones are replayed.
void CudaOps::replay(uint64_t key, const std::function<void()>& work) {
  enter();
  const auto [found, fresh] = graphs_.try_emplace(key, nullptr);
  if (fresh) return work();
  if (found->second == nullptr) capture(key, work);
  check(cudaGraphLaunch(found->second, where_.stream), "cudaGraphLaunch");
}

void CudaOps::capture(uint64_t key, const std::function<void()>& work) {
  check(cudaStreamBeginCapture(where_.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(where_.stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(where_.stream, &graph), "cudaStreamEndCapture");
  const cudaError_t status = cudaGraphInstantiate(&graphs_[key], graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
}

}  // namespace
}  // namespace cuda

std::vector<CudaDevice> cuda_devices() {
  std::vector<CudaDevice> devices;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return devices;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    size_t free = 0, total = properties.totalGlobalMem;
    if (cudaSetDevice(i) == cudaSuccess) cudaMemGetInfo(&free, &total);
    devices.push_back({i, properties.name, 10 * properties.major + properties.minor, free, total});
  }
  return devices;
}

std::unique_ptr<Ops> make_cuda_ops(int device) {
  const std::vector<CudaDevice> devices = cuda_devices();
  const int count = static_cast<int>(devices.size());
  check<ConfigError>(count > 0, "device = cuda:", device, ": no CUDA device is visible here (is the driver loaded?); use device = cpu");
  check<ConfigError>(device >= 0 && device < count, "device = cuda:", device, ": this machine has cuda:0 .. cuda:", count - 1);
  const CudaDevice& chosen = devices[static_cast<size_t>(device)];
  check<ConfigError>(chosen.capability >= 75, "device = cuda:", device, ": ", chosen.name, " has compute capability ", chosen.capability / 10, ".",
                     chosen.capability % 10, ", at least 7.5 is needed");
  return std::make_unique<cuda::CudaOps>(device);
}

}  // namespace paceline::ops
