// One rank on one device: the operations over the kernels, with scratch memory and a graph per kind of step.
#pragma once

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ops/cuda/elementwise.h"
#include "ops/cuda/linear/kernels.h"
#include "ops/cuda/linear/pack.h"
#include "ops/cuda/memory.h"

namespace paceline::ops::cuda {

// Memory that grows on demand. What it outgrew stays, since captured graphs may point to it.
class Scratch {
 public:
  explicit Scratch(cudaStream_t stream) : stream_(stream) {}

  template <class T>
  T* at_least(size_t count) {  // zeroed when new
    const size_t bytes = count * sizeof(T);
    const size_t last = buffers_.empty() ? 0 : buffers_.back()->size();
    if (buffers_.empty() || last < bytes) buffers_.push_back(std::make_unique<DeviceBuffer>(std::max(bytes, 2 * last), stream_));
    return static_cast<T*>(buffers_.back()->data());
  }

 private:
  cudaStream_t stream_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
};

// A product may leave its runs unadded, and a sum of one partial waits for the norm that usually follows: one kernel does all of
// that. Every other operation settles both first.
class CudaOps final : public Ops {
 public:
  explicit CudaOps(int device);
  ~CudaOps() override;

  std::unique_ptr<Linear> pack(std::span<const LinearPart> parts) override;
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  std::unique_ptr<Linear> make_random(const RandomMatrix& matrix) override;
  const void* make_random_table(int64_t count, uint64_t seed) override;
  const void* place(const void* host, size_t bytes) override;
  void upload(void* to, const void* from_host, size_t bytes) override;
  void download(void* to_host, const void* from, size_t bytes) override;
  void embed(const Rows& rows, const void* table, DType dtype, int width, float* hidden) override;
  void rms_norm(const float* x, const float* weight, float eps, int rows, int width, uint16_t* out) override;
  void linear(const Linear& weight, const uint16_t* x, int rows, float* y, int ld_y) override;
  void linears(std::span<const LinearJob> jobs, const uint16_t* x, int rows) override;
  void gated_linear(const Linear& gate_up, const uint16_t* x, int rows, float* scratch, uint16_t* out) override;
  void swiglu(const float* gate_up, int rows, int width, uint16_t* out) override;
  void attention(const Rows& rows, const AttentionInput& in, const KvCache& cache, uint16_t* out) override;
  void delta_net(const Rows& rows, const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state, bool chunked,
                 uint16_t* out) override;
  void gather(const float* in, const int32_t* index, int count, int width, float* out) override;
  void argmax(const float* x, int rows, int width, int ld, float* value, int32_t* index) override;
  void add_partials(std::span<const float* const> partials, int64_t count, float* target) override;
  void replay(uint64_t key, const std::function<void()>& work) override;
  bool records() const override { return true; }
  void synchronize() override;

 private:
  struct Sum {  // target += partial
    Addend partial = {};
    int64_t count = 0;
    float* target = nullptr;
  };
  void enter();   // makes the device this thread's
  void settle();  // issues the product and the sum that wait
  void multiply(Products& all);
  void multiply_many(const Products& all);  // more than kSkinnyRows rows
  void leave_runs(Products& all);
  bool takes_runs(const float* y, int rows, int64_t width) const;  // of a lone product
  const uint16_t* padded(const CudaLinear& weight, const uint16_t* x, int rows);
  void run_settled(const std::function<void()>& work);
  void capture(uint64_t key, const std::function<void()>& work);

  int device_;
  int capability_ = 0;  // that the kernels were compiled for, as this device runs them
  Launch where_{};
  Sum waiting_;
  Collection unadded_{};                    // products whose runs are still apart
  std::unordered_set<const void*> states_;  // DeltaNet states that kernels under way may write
  std::unique_ptr<Packer> packer_;
  std::unique_ptr<PinnedBuffer> sent_, received_;
  size_t staged_ = 0;  // bytes of sent_ that copies under way still read
  std::vector<std::unique_ptr<Buffer>> weights_;
  std::unordered_map<const void*, std::unique_ptr<DeviceBuffer>> placed_;
  bool warpgroups_ = false;  // there are products of whole warpgroups
  Scratch query_, padded_, arranged_, runs_, arrivals_, best_value_, best_index_;
  std::unordered_map<uint64_t, cudaGraphExec_t> graphs_;  // null until the second step of its kind
};

}  // namespace paceline::ops::cuda
