// Weights in the order in which the products read them.
#pragma once

#include <span>
#include <vector>

#include "base/memory.h"
#include "base/team.h"
#include "ops/cpu/kernels.h"
#include "ops/ops.h"

namespace paceline::ops::cpu {

struct BlockSpan {  // consecutive blocks of one part that one thread computes
  int part;
  int64_t first, last;
};

// A Linear of the CPU backend: each part packed on its own, its blocks packed by the thread that will read them.
class PackedLinear final : public Linear {
 public:
  // Throws WeightError when the parts do not fit together or have a type that no kernel reads.
  PackedLinear(std::span<const LinearPart> parts, Team& team);

  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  size_t bytes() const override { return bytes_; }

  const std::vector<PackedPart>& parts() const { return parts_; }
  const std::vector<BlockSpan>& spans(int thread) const { return spans_[thread]; }

 private:
  void add_part(const LinearPart& part);
  void divide(int threads);

  int64_t rows_ = 0, cols_ = 0;
  size_t bytes_ = 0;
  std::vector<PackedPart> parts_;
  std::vector<AlignedBuffer> storage_;
  std::vector<std::vector<BlockSpan>> spans_;  // [thread]
};

}  // namespace paceline::ops::cpu
