#include "ops/cuda/cuda_ops.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/delta_net.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/random.h"

namespace paceline::ops::cuda {
namespace {

constexpr size_t kStagingBytes = size_t{1} << 20;
constexpr size_t kStagingStep = 256;  // alignment of what is staged

cudaStream_t make_stream(int device) {
  check(cudaSetDevice(device), "cudaSetDevice");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// The parts of a packed weight as products in `all`, which share its input.
void add_products(const CudaLinear& weight, float* y, int ld_y, Products& all) {
  for (int i = 0; i < weight.part_count; ++i) {
    const PackedPart& part = weight.parts[i];
    all.product[all.count++] = {.data = part.data,
                                .scale = part.scale,
                                .y = y + part.first,
                                .boundary = part.boundary,
                                .rows = part.rows,
                                .groups = part.groups,
                                .ld_y = ld_y,
                                .tile_begin = 0};
  }
}

}  // namespace

CudaOps::CudaOps(int device)
    : device_(device),
      where_{.stream = make_stream(device), .dependent = false, .shared_optin = 0, .multiprocessors = 0},
      query_(where_.stream),
      padded_(where_.stream),
      arranged_(where_.stream),
      runs_(where_.stream),
      arrivals_(where_.stream),
      best_value_(where_.stream),
      best_index_(where_.stream) {
  where_.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  where_.shared_optin = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const int own =
      10 * attribute(cudaDevAttrComputeCapabilityMajor, device) + attribute(cudaDevAttrComputeCapabilityMinor, device);
  // A newer card may run code that was compiled for an older one: what counts is what the kernels were compiled for.
  capability_ = std::min(own, compiled_architecture());
  where_.dependent = capability_ >= 90;
  if (capability_ >= 80) {
    prepare_skinny(where_.shared_optin);
    prepare_tiled(where_.shared_optin);
    warpgroups_ = prepare_warpgroups(where_.shared_optin);
  }
  packer_ = std::make_unique<Packer>(where_);
  sent_ = std::make_unique<PinnedBuffer>(kStagingBytes);
  received_ = std::make_unique<PinnedBuffer>(kStagingBytes);
}

CudaOps::~CudaOps() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(where_.stream);
  for (const auto& [key, graph] : graphs_) {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  cudaStreamDestroy(where_.stream);
}

void CudaOps::enter() { check(cudaSetDevice(device_), "cudaSetDevice"); }

std::unique_ptr<Linear> CudaOps::pack(std::span<const LinearPart> parts) {
  enter();
  return packer_->pack(parts, weights_);
}

std::unique_ptr<Linear> CudaOps::make_random(const RandomMatrix& matrix) {
  enter();
  return packer_->make_random(matrix, weights_);
}

const void* CudaOps::make_random_table(int64_t count, uint64_t seed) {
  enter();
  auto buffer = std::make_unique<DeviceBuffer>(static_cast<size_t>(count) * sizeof(uint16_t), where_.stream);
  run_random(where_, DType::kBF16, seed, 0, count, 1.0f, buffer->data());
  const void* table = buffer->data();
  placed_[table] = std::move(buffer);  // so that it counts as placed where it is
  return table;
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
    check(cudaMemcpyAsync(buffer->data(), host, bytes, cudaMemcpyHostToDevice, where_.stream), "copy of a table");
    check(cudaStreamSynchronize(where_.stream), "copy of a table");
  }
  return buffer->data();
}

// A copy waits for all kernels before it, so behind it no state is under way.
void CudaOps::upload(void* to, const void* from_host, size_t bytes) {
  enter();
  settle();
  states_.clear();
  const size_t room = (bytes + kStagingStep - 1) / kStagingStep * kStagingStep;
  if (staged_ + room > kStagingBytes) {
    check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, where_.stream), "upload");
    check(cudaStreamSynchronize(where_.stream), "upload");
    staged_ = 0;
    return;
  }
  auto* stage = static_cast<uint8_t*>(sent_->data()) + staged_;
  std::memcpy(stage, from_host, bytes);
  staged_ += room;
  check(cudaMemcpyAsync(to, stage, bytes, cudaMemcpyHostToDevice, where_.stream), "upload");
}

void CudaOps::download(void* to_host, const void* from, size_t bytes) {
  enter();
  settle();
  const bool small = bytes <= kStagingBytes;
  void* landing = small ? received_->data() : to_host;
  check(cudaMemcpyAsync(landing, from, bytes, cudaMemcpyDeviceToHost, where_.stream), "download");
  synchronize();
  if (small) std::memcpy(to_host, landing, bytes);
}

void CudaOps::synchronize() {
  enter();
  settle();
  check(cudaStreamSynchronize(where_.stream), "a step on the device");
  states_.clear();
  staged_ = 0;
}

void CudaOps::embed(const Rows& rows, const void* table, DType dtype, int width, float* hidden) {
  settle();
  run_embed(where_, rows.token, rows.count, table, dtype, width, hidden);
}

void CudaOps::rms_norm(const float* x, const float* weight, float eps, int rows, int width, uint16_t* out) {
  RmsNorm norm = {.x = const_cast<float*>(x), .partial = {}, .weight = weight, .eps = eps, .width = width, .out = out};
  if (waiting_.target == x && waiting_.count == int64_t{rows} * width) {
    norm.partial = waiting_.partial;
    waiting_ = {};
  }
  settle();
  run_rms_norm(where_, norm, rows);
}

const uint16_t* CudaOps::padded(const CudaLinear& weight, const uint16_t* x, int rows) {
  const int ld = weight.blocks * kBlock;
  if (ld == weight.cols_) return x;
  uint16_t* room = padded_.at_least<uint16_t>(static_cast<size_t>(rows) * static_cast<size_t>(ld));
  run_pad(where_, x, rows, static_cast<int>(weight.cols_), weight.lead, ld, room);
  return room;
}

void CudaOps::multiply(Products& all) {
  if (capability_ < 80) return run_simt(where_, all);
  if (leaves_runs(where_, all)) leave_runs(all);
  if (all.m <= kSkinnyRows) {
    run_skinny(where_, all);
  } else {
    multiply_many(all);
  }
}

void CudaOps::multiply_many(const Products& all) {
  Products fp8 = all, others = all;
  fp8.count = others.count = 0;
  for (int i = 0; i < all.count; ++i) {
    Products& kind = warpgroups_ && all.product[i].scale != nullptr ? fp8 : others;
    kind.product[kind.count++] = all.product[i];
  }
  if (fp8.count > 0) run_warpgroups(where_, fp8, arranged_.at_least<uint8_t>(arranged_bytes(fp8)));
  if (others.count > 0) run_tiled(where_, others);
}

// The products' outputs lie side by side in a row of runs.
void CudaOps::leave_runs(Products& all) {
  int total = 0;
  for (int i = 0; i < all.count; ++i) total += all.product[i].rows;
  all.run_stride = int64_t{all.m} * total;
  float* runs = runs_.at_least<float>(static_cast<size_t>(kSplits * all.run_stride));
  unadded_.count = all.count;
  unadded_.runs = {runs, kSplits, all.run_stride};
  unadded_.ld_runs = total;
  unadded_.rows = all.m;
  int64_t offset = 0;
  for (int i = 0; i < all.count; ++i) {
    Product& p = all.product[i];
    unadded_.output[i] = {.offset = offset, .width = p.rows, .y = p.y, .ld = p.ld_y};
    p.y = runs + offset;
    p.ld_y = total;
    offset += p.rows;
  }
}

bool CudaOps::takes_runs(const float* y, int rows, int64_t width) const {
  if (unadded_.count == 0 || unadded_.rows != rows || unadded_.ld_runs != width) return false;
  for (int i = 0; i < unadded_.count; ++i) {
    const Collection::Output& output = unadded_.output[i];
    if (output.y != y + output.offset || output.ld != width) return false;
  }
  return true;
}

void CudaOps::linear(const Linear& weight, const uint16_t* x, int rows, float* y, int ld_y) {
  const LinearJob job = {&weight, y, ld_y};
  linears({&job, 1}, x, rows);
}

// One launch for all of them where they cut their input alike.
void CudaOps::linears(std::span<const LinearJob> jobs, const uint16_t* x, int rows) {
  size_t next = 0;
  while (next < jobs.size()) {
    settle();
    const auto& first = static_cast<const CudaLinear&>(*jobs[next].weight);
    Products all{};
    all.x = padded(first, x, rows);
    all.ld_x = first.blocks * kBlock;
    all.m = rows;
    all.blocks = first.blocks;
    for (; next < jobs.size(); ++next) {
      const LinearJob& job = jobs[next];
      const auto& weight = static_cast<const CudaLinear&>(*job.weight);
      const bool alike = weight.cols_ == first.cols_ && weight.blocks == first.blocks && weight.lead == first.lead;
      if (!alike || all.count + weight.part_count > Products::kMax) break;
      paceline::check<ConfigError>(job.ld_y >= weight.rows(), "ld_y is ", job.ld_y, ", must be at least the ", weight.rows(),
                                   " output features");
      add_products(weight, job.y, job.ld_y, all);
    }
    multiply(all);
  }
}

void CudaOps::gated_linear(const Linear& gate_up, const uint16_t* x, int rows, float* scratch, uint16_t* out) {
  const auto& weight = static_cast<const CudaLinear&>(gate_up);
  const PackedPart &gate = weight.parts[0], &up = weight.parts[1];
  const bool alike = weight.part_count == 2 && gate.rows == up.rows && gate.scale != nullptr && up.scale != nullptr &&
                     gate.boundary == up.boundary;
  if (capability_ < 80 || rows > kGatedRows || !alike) return Ops::gated_linear(gate_up, x, rows, scratch, out);
  settle();
  Products all{};
  all.x = padded(weight, x, rows);
  all.ld_x = weight.blocks * kBlock;
  all.m = rows;
  all.blocks = weight.blocks;
  all.gated = out;
  add_products(weight, nullptr, 0, all);
  run_skinny(where_, all);
}

void CudaOps::swiglu(const float* gate_up, int rows, int width, uint16_t* out) {
  Addend in = {gate_up, 1, 0};
  if (takes_runs(gate_up, rows, int64_t{2} * width)) {
    in = unadded_.runs;  // gate_up itself is never written
    unadded_ = {};
  }
  settle();
  run_swiglu(where_, in, rows, width, out);
}

void CudaOps::attention(const Rows& rows, const AttentionInput& in, const KvCache& cache, uint16_t* out) {
  using paceline::check;
  check<ConfigError>(attention_fits(cache.head_dim), "head_dim is ", cache.head_dim, ", the CUDA backend serves up to 256");
  check<ConfigError>(cache.kv_heads > 0 && in.heads % cache.kv_heads == 0, "heads is ", in.heads, ", must be a multiple of the ",
                     cache.kv_heads, " KV heads");
  check<ConfigError>(in.rotary_dim % 2 == 0 && in.rotary_dim <= cache.head_dim, "rotary_dim is ", in.rotary_dim,
                     ", must be even and at most the head_dim of ", cache.head_dim);
  settle();
  float* query = query_.at_least<float>(static_cast<size_t>(rows.count) * static_cast<size_t>(in.heads * cache.head_dim));
  run_attention(where_, {rows, in, cache, query, out});
}

// The kernel reads the state ahead of its predecessors' end, so it must not start early where one of them may write it.
void CudaOps::delta_net(const Rows& rows, const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state, bool,
                        uint16_t* out) {
  paceline::check<ConfigError>(shape.key_heads > 0 && shape.value_heads % shape.key_heads == 0, "value_heads is ",
                               shape.value_heads, ", must be a multiple of the ", shape.key_heads, " key heads");
  paceline::check<ConfigError>(
      delta_net_fits(shape), "DeltaNet heads of ", shape.key_dim, " by ", shape.value_dim, " with ", shape.kernel,
      " taps: the CUDA backend serves 32, 64, 128 or 256 by a multiple of 8 up to 256, with 2 to 8 taps");
  settle();
  uint32_t* arrivals = arrivals_.at_least<uint32_t>(static_cast<size_t>(rows.count) * static_cast<size_t>(shape.key_heads));
  Launch where = where_;
  if (!states_.insert(state.recurrent).second) where.dependent = false;
  run_delta_net(where, {rows, shape, in, state, arrivals, out});
}

void CudaOps::gather(const float* in, const int32_t* index, int count, int width, float* out) {
  settle();
  run_gather(where_, in, index, count, width, out);
}

void CudaOps::argmax(const float* x, int rows, int width, int ld, float* value, int32_t* index) {
  settle();
  const size_t count = static_cast<size_t>(rows) * kArgmaxParts;
  run_argmax(where_, x, rows, width, ld, {best_value_.at_least<float>(count), best_index_.at_least<int32_t>(count)}, value,
             index);
}

void CudaOps::add_partials(std::span<const float* const> partials, int64_t count, float* target) {
  if (partials.size() != 1) {
    settle();
    return run_add(where_, partials, count, target);
  }
  Addend addend = {partials[0], 1, 0};
  if (unadded_.count > 0 && unadded_.ld_runs > 0 && count == int64_t{unadded_.rows} * unadded_.ld_runs &&
      takes_runs(partials[0], unadded_.rows, unadded_.ld_runs)) {
    addend = unadded_.runs;  // the partial itself is never written
    unadded_ = {};
  }
  settle();
  waiting_ = {addend, count, target};
}

void CudaOps::settle() {
  if (waiting_.target != nullptr) run_add(where_, waiting_.partial, waiting_.count, waiting_.target);
  waiting_ = {};
  if (unadded_.count > 0) run_collect(where_, unadded_);
  unadded_ = {};
}

// The first step of a kind runs as it is and lets scratch memory grow; the second is captured; later ones are replayed.
void CudaOps::replay(uint64_t key, const std::function<void()>& work) {
  enter();
  settle();
  const auto [found, fresh] = graphs_.try_emplace(key, nullptr);
  if (fresh) return run_settled(work);
  if (found->second == nullptr) capture(key, work);
  check(cudaGraphLaunch(found->second, where_.stream), "cudaGraphLaunch");
}

void CudaOps::run_settled(const std::function<void()>& work) {
  work();
  settle();
}

void CudaOps::capture(uint64_t key, const std::function<void()>& work) {
  states_.clear();  // a graph begins when all before it has ended
  check(cudaStreamBeginCapture(where_.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    run_settled(work);
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

}  // namespace paceline::ops::cuda
