// A checkpoint's rows to the packed layout of linear/layout.h, on the device, through pinned staging memory.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/cuda/linear/layout.h"
#include "ops/cuda/memory.h"
#include "ops/cuda/runtime.h"

namespace paceline::ops::cuda {

class Packer {  // of one device; one call at a time
 public:
  explicit Packer(const Launch& where) : where_(where) {}

  // Throws WeightError for parts that do not fit together, more than CudaLinear::kMaxParts of them, or FP8 codes that are NaN.
  std::unique_ptr<Linear> pack(std::span<const LinearPart> parts, std::vector<std::unique_ptr<Buffer>>& owners);

  // Random numbers in place of a checkpoint's, scales included.
  std::unique_ptr<Linear> make_random(const RandomMatrix& matrix, std::vector<std::unique_ptr<Buffer>>& owners);

 private:
  void fill_rows(const LinearPart& part, int64_t first, int64_t count);  // raw_, through pinned_ or with random numbers

  std::unique_ptr<DeviceBuffer> pack_part(const LinearPart& part, size_t index, const CudaLinear& linear);
  std::unique_ptr<DeviceBuffer> copy_scales(const LinearPart& part, const PackedPart& packed, const CudaLinear& linear);

  Launch where_;
  std::optional<uint64_t> matrix_seed_;  // of random numbers: a whole matrix
  std::optional<uint64_t> seed_;         // the part that is packed
  std::unique_ptr<PinnedBuffer> pinned_;
  std::unique_ptr<DeviceBuffer> raw_;
  std::unique_ptr<DeviceBuffer> bad_;  // one word
};

}  // namespace paceline::ops::cuda
