// The CPU backend. Each operation stands in a file of its own; what they share is here.
#pragma once

#include <algorithm>
#include <vector>

#include "base/memory.h"
#include "base/team.h"
#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/packing.h"

namespace paceline::ops::cpu {

class CpuOps final : public Ops {
 public:
  CpuOps(const CpuOptions& options, const VectorKernels& vector, LinearKernel linear);

  std::unique_ptr<Linear> pack(std::span<const LinearPart> parts) override;
  std::unique_ptr<Buffer> allocate(size_t bytes) override;
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
  void synchronize() override {}

 private:
  // The inputs of a product in the form that one part's depth and lead ask for.
  struct Prepared {
    int64_t lead, depth;
    const uint16_t* x;
    int64_t ld_x;
    const uint16_t* tail;
  };
  void prepare(const PackedLinear& weight, const uint16_t* x, int rows);

  // Consecutive rows of one slot in ascending position.
  struct Run {
    int first, count, slot, position;
  };
  void find_runs(const Rows& rows, int longest);  // fills runs_; a run of more than `longest` rows is cut
  void convolve_runs(const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state);
  void delta_head(const Run& run, int head, const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state,
                  bool chunked, float* scratch, uint16_t* out);

  // Calls body(first, last, thread) over a division of 0..items among the threads, at least `grain` items each (the last may have
  // fewer); with little to do the caller does it alone.
  template <typename Body>
  void divide(int64_t items, int64_t grain, Body&& body) {
    const int64_t shares = std::min<int64_t>(team_.threads(), (items + grain - 1) / std::max<int64_t>(1, grain));
    if (shares <= 1) {
      if (items > 0) body(int64_t{0}, items, 0);
      return;
    }
    team_.run([&](int thread, int) {
      if (thread < shares) body(items * thread / shares, items * (thread + 1) / shares, thread);
    });
  }

  // Calls body(item, thread) for every item; thread t takes t, t + threads, ...: a fair division of work that grows with the
  // item.
  template <typename Body>
  void stride(int64_t items, Body&& body) {
    if (items == 1 || team_.threads() == 1) {
      for (int64_t item = 0; item < items; ++item) body(item, 0);
      return;
    }
    team_.run([&](int thread, int threads) {
      for (int64_t item = thread; item < items; item += threads) body(item, thread);
    });
  }

  // Room for `count` floats of one thread's own.
  float* scratch(int thread, int64_t count) {
    scratch_[thread].reserve(static_cast<size_t>(count) * sizeof(float));
    return scratch_[thread].as<float>();
  }

  Team team_;
  const VectorKernels& vector_;
  const LinearKernel linear_;
  std::vector<AlignedBuffer> scratch_;  // [thread]
  AlignedBuffer padded_;                // inputs of products that need padding
  std::vector<Prepared> prepared_;
  AlignedBuffer convolved_;  // [rows, channels] of a delta_net step
  std::vector<Run> runs_;
  std::vector<float> argmax_value_;  // [rows, stretches]
  std::vector<int32_t> argmax_index_;
};

}  // namespace paceline::ops::cpu
