// The loop over blocks that the vector products share; included by linear/<isa>.cc, which brings the microkernels:
//   struct Micro {
//     static constexpr int kRows;      // most rows of one microkernel
//     static constexpr bool kOnePass;  // whether it reads its weights once, not one half of the columns after the other
//     template <int M> static void bf16(const uint8_t* w, const Activations& x, int pairs, Target y, Ahead ahead);
//     template <int M> static void fp8(const uint8_t* w, const BlockScale& scale, const Activations& x, Target y, Ahead ahead);
//   };
// Both add to y: bf16 the products of `pairs` pairs of input features, fp8 the scaled partial sum of one block of 128. What they
// prefetch is the driver's to say.
// Anonymous, so that no other translation unit can link to code built for this processor.
#pragma once

#include <string.h>

#include <cstdint>

#include "ops/cpu/kernels.h"

namespace paceline::ops::cpu {
namespace {

struct Activations {
  const uint16_t* data;
  int64_t ld;
};

struct Target {  // 32 columns of float32
  float* data;
  int64_t ld;
};

struct BlockScale {
  float first, second;
  int split;  // columns that take `first`
};

// Bytes, where the weights are read once: half of it is too little for 8 rows on a fast memory.
constexpr int64_t kPrefetchDistance = 8192;

// Where a microkernel prefetches: `stride` bytes further with each pair of input features. Into all levels: the non-temporal hint
// gains little on Zen 5 and halves the speed of AVX-512 on a Xeon (docs/cpu.md).
struct Ahead {
  const uint8_t* data;
  int64_t stride;

  void fetch(int64_t offset = 0) const { __builtin_prefetch(data + offset, 0, 3); }
};

// Input features whose weights stay in the first-level cache while several groups of rows pass: a multiple of 128.
constexpr int64_t kDepthStep = 256;

// One group of rows over one depth step. Where several groups share the step, reading it leaves the memory idle while they
// compute, so the first two fetch the next step meanwhile, half of it each.
struct Step {
  int64_t block, k, depth;
  int group;
  bool shared;  // by several groups

  // `pair_bytes` of weights make a pair of input features; `done` features of the step are behind.
  Ahead ahead(const uint8_t* w, int64_t pair_bytes, int64_t done) const {
    const int64_t behind = done / 2 * pair_bytes, whole = depth / 2 * pair_bytes;
    if (!shared) return {w + behind + kPrefetchDistance, pair_bytes};
    if (group > 1) return {w + behind, pair_bytes};  // nothing new
    return {w + whole + (group * whole + behind) / 2, pair_bytes / 2};
  }
};

template <typename Micro, int M>
inline void one_step(const PackedPart& part, const Step& step, Activations x, Target y) {
  if (!part.fp8) {
    const uint8_t* w = part.data + (step.block * part.depth + step.k) * kBlockColumns * 2;
    Micro::template bf16<M>(w, x, static_cast<int>(step.depth / 2), y, step.ahead(w, kBlockColumns * 4, 0));
    return;
  }
  const int64_t scale_blocks = part.depth / kScaleBlock;
  const uint8_t* w = part.data + (step.block * part.depth + step.k) * kBlockColumns;
  for (int64_t done = 0; done < step.depth; done += kScaleBlock) {
    const float* scale = part.scale + 2 * (step.block * scale_blocks + (step.k + done) / kScaleBlock);
    Micro::template fp8<M>(w + done * kBlockColumns, BlockScale{scale[0], scale[1], part.split[step.block]},
                           Activations{x.data + done, x.ld}, y, step.ahead(w, kBlockColumns * 2, done));
  }
}

template <typename Micro, int M = Micro::kRows>
inline void dispatch_rows(int rows, const PackedPart& part, const Step& step, Activations x, Target y) {
  if (rows == M) {
    one_step<Micro, M>(part, step, x, y);
  } else if constexpr (M > 1) {
    dispatch_rows<Micro, M - 1>(rows, part, step, x, y);
  }
}

// All rows of one block. Rows go in groups of nearly equal size, and the weights of a depth step serve all groups before the
// next.
template <typename Micro>
inline void one_block(const LinearCall& call, int64_t block, Target y) {
  const PackedPart& part = *call.part;
  for (int row = 0; row < call.rows; ++row) memset(y.data + row * y.ld, 0, kBlockColumns * sizeof(float));
  const int groups = (call.rows + Micro::kRows - 1) / Micro::kRows;
  const int64_t step = groups == 1 && Micro::kOnePass ? part.depth : kDepthStep;
  for (int64_t k = 0; k < part.depth; k += step) {
    const int64_t depth = part.depth - k < step ? part.depth - k : step;
    for (int group = 0; group < groups; ++group) {
      const int first = static_cast<int>(static_cast<int64_t>(call.rows) * group / groups);
      const int last = static_cast<int>(static_cast<int64_t>(call.rows) * (group + 1) / groups);
      const Activations x{call.x + first * call.ld_x + k, call.ld_x};
      dispatch_rows<Micro>(last - first, part, Step{block, k, depth, group, groups > 1}, x, Target{y.data + first * y.ld, y.ld});
    }
  }
}

// Copies the block's true columns from the scratch of a ragged block.
inline void copy_columns(const LinearCall& call, int64_t block) {
  const int64_t columns = call.part->rows - block * kBlockColumns;
  for (int row = 0; row < call.rows; ++row) {
    memcpy(call.y + row * call.ld_y + block * kBlockColumns, call.ragged + row * kBlockColumns,
           static_cast<size_t>(columns) * sizeof(float));
  }
}

template <typename Micro>
inline void all_blocks(const LinearCall& call) {
  for (int64_t block = call.first; block < call.last; ++block) {
    const bool whole = (block + 1) * kBlockColumns <= call.part->rows;
    one_block<Micro>(call, block, whole ? Target{call.y + block * kBlockColumns, call.ld_y} : Target{call.ragged, kBlockColumns});
    if (!whole) copy_columns(call, block);
  }
}

}  // namespace
}  // namespace paceline::ops::cpu
