// The loop over blocks that the vector products share; included by linear/<isa>.cc, which brings the microkernels:
//   struct Micro {
//     static constexpr int kRows;      // most rows of one microkernel
//     static constexpr bool kOnePass;  // whether it reads its weights once, not one half of the columns after the other
//     template <int M> static void bf16(const uint8_t* w, const Activations& x, int pairs, Target y);
//     template <int M> static void fp8(const uint8_t* w, const BlockScale& scale, const Activations& x, Target y);
//   };
// Both add to y: bf16 the products of `pairs` pairs of input features, fp8 the scaled partial sum of one block of 128.
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

// Input features whose weights stay in the first-level cache while several groups of rows pass: a multiple of 128.
constexpr int64_t kDepthStep = 256;

template <typename Micro, int M>
inline void one_step(const PackedPart& part, int64_t block, int64_t k, int64_t depth, Activations x, Target y) {
  if (!part.fp8) {
    const uint8_t* w = part.data + (block * part.depth + k) * kBlockColumns * 2;
    Micro::template bf16<M>(w, x, static_cast<int>(depth / 2), y);
    return;
  }
  const int64_t scale_blocks = part.depth / kScaleBlock;
  for (int64_t done = 0; done < depth; done += kScaleBlock) {
    const uint8_t* w = part.data + (block * part.depth + k + done) * kBlockColumns;
    const float* scale = part.scale + 2 * (block * scale_blocks + (k + done) / kScaleBlock);
    Micro::template fp8<M>(w, BlockScale{scale[0], scale[1], part.split[block]}, Activations{x.data + done, x.ld}, y);
  }
}

template <typename Micro, int M = Micro::kRows>
inline void dispatch_rows(int rows, const PackedPart& part, int64_t block, int64_t k, int64_t depth, Activations x, Target y) {
  if (rows == M) {
    one_step<Micro, M>(part, block, k, depth, x, y);
  } else if constexpr (M > 1) {
    dispatch_rows<Micro, M - 1>(rows, part, block, k, depth, x, y);
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
      dispatch_rows<Micro>(last - first, part, block, k, depth, x, Target{y.data + first * y.ld, y.ld});
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
