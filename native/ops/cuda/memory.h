// Device and pinned memory with owners.
#pragma once

#include "ops/cuda/runtime.h"
#include "ops/ops.h"

namespace paceline::ops::cuda {

class DeviceBuffer final : public Buffer {  // zeroed
 public:
  DeviceBuffer(size_t bytes, cudaStream_t stream);
  ~DeviceBuffer() override;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* data() override { return data_; }
  size_t size() const override { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_;
  int device_ = 0;
};

class PinnedBuffer final {
 public:
  explicit PinnedBuffer(size_t bytes) { check(cudaMallocHost(&data_, bytes), "cudaMallocHost"); }
  ~PinnedBuffer() { cudaFreeHost(data_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace paceline::ops::cuda
