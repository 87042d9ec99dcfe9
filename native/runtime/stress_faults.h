// A backend that fails on purpose, to see that the fault of one rank ends a session and hangs nobody.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "base/error.h"
#include "ops/ops.h"

namespace paceline::runtime {

// Forwards to a real backend until its `calls`-th swiglu, which throws.
class FailingOps final : public ops::Ops {
 public:
  FailingOps(std::unique_ptr<ops::Ops> real, int calls) : real_(std::move(real)), left_(calls) {}

  std::unique_ptr<ops::Linear> pack(std::span<const ops::LinearPart> parts) override { return real_->pack(parts); }
  std::unique_ptr<ops::Buffer> allocate(size_t bytes) override { return real_->allocate(bytes); }
  void upload(void* to, const void* from, size_t bytes) override { real_->upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { real_->download(to, from, bytes); }
  void embed(const ops::Rows& rows, const void* table, DType dtype, int width, float* hidden) override {
    real_->embed(rows, table, dtype, width, hidden);
  }
  void rms_norm(const float* x, const float* weight, float eps, int rows, int width, uint16_t* out) override {
    real_->rms_norm(x, weight, eps, rows, width, out);
  }
  void linear(const ops::Linear& weight, const uint16_t* x, int rows, float* y, int ld_y) override {
    real_->linear(weight, x, rows, y, ld_y);
  }
  void swiglu(const float* gate_up, int rows, int width, uint16_t* out) override {
    check(--left_ > 0, "a fault made for this test");
    real_->swiglu(gate_up, rows, width, out);
  }
  void attention(const ops::Rows& rows, const ops::AttentionInput& in, const ops::KvCache& cache, uint16_t* out) override {
    real_->attention(rows, in, cache, out);
  }
  void delta_net(const ops::Rows& rows, const ops::DeltaNetShape& shape, const ops::DeltaNetInput& in,
                 const ops::DeltaNetState& state, bool chunked, uint16_t* out) override {
    real_->delta_net(rows, shape, in, state, chunked, out);
  }
  void gather(const float* in, const int32_t* index, int count, int width, float* out) override {
    real_->gather(in, index, count, width, out);
  }
  void argmax(const float* x, int rows, int width, int ld, float* value, int32_t* index) override {
    real_->argmax(x, rows, width, ld, value, index);
  }
  void add_partials(std::span<const float* const> partials, int64_t count, float* target) override {
    real_->add_partials(partials, count, target);
  }
  void synchronize() override { real_->synchronize(); }

 private:
  std::unique_ptr<ops::Ops> real_;
  int left_;
};

}  // namespace paceline::runtime
