// How a weight lies on the device, and what a product is told.
//
// Rows in groups of 16, columns in blocks of 128, padded with zeros. A block is stored in the order in which the lanes of a warp
// hold mma.m16n8k16's A fragments, with columns permuted inside chunks of 32 so that a lane reads 16 bytes at a time (and its
// activations, too): lane = (row % 8) * 4 + (column % 32) / 8.
//   FP8   [group][block][chunk of 32 columns: 4][lane: 32][row / 8: 2][column % 8: 8]   2,048 bytes a block, four codes a word
//         (below)
//   BF16  [group][block][chunk: 4][row / 8: 2][lane: 32][column % 8: 8]                 4,096 bytes a block
// Scales come from the checkpoint's blocks of 128 x 128. A group meets at most two rows of them, since a shard may start at any
// row: [group][block][2], the first for the group's rows below `boundary`, the second for the others.
//
// The order of a sum is part of the layout, and every kernel keeps it: kSplits runs of whole blocks; in a run the blocks in
// ascending order, acc = fma(scale, block sum, acc); then the runs in ascending order. It depends on the shape alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/ops.h"

namespace paceline::ops::cuda {

constexpr int kGroup = 16;
constexpr int kBlock = 128;
constexpr int kSplits = 4;

// Four e4m3 codes as one word: the bits of the first two stand where bfloat16 wants them, those of the others in the gaps
// between. In each half: sign a (15), b's upper magnitude (14..12), sign b (11), a's magnitude (10..4), b's lower magnitude
// (3..0).
__host__ __device__ constexpr uint32_t pair_codes(uint8_t a, uint8_t b) {
  const uint32_t x = a, y = b;
  return (x & 0x80u) << 8 | (x & 0x7fu) << 4 | (y & 0x70u) << 8 | (y & 0x80u) << 4 | (y & 0x0fu);
}
__host__ __device__ constexpr uint32_t pack_codes(const uint8_t (&code)[4]) {
  return pair_codes(code[0], code[2]) | pair_codes(code[1], code[3]) << 16;
}
__host__ __device__ constexpr uint8_t unpack_code(uint32_t word, int i) {
  const uint32_t half = word >> (i % 2 * 16) & 0xffffu;
  const uint32_t code =
      i < 2 ? (half >> 8 & 0x80u) | (half >> 4 & 0x7fu) : (half >> 4 & 0x80u) | (half >> 8 & 0x70u) | (half & 0x0fu);
  return static_cast<uint8_t>(code);
}

struct PackedPart {  // device memory
  const uint8_t* data;
  const float* scale;  // null for BF16
  int boundary;        // of the scales, within each group
  int rows;            // true output features
  int groups;          // rows / 16, rounded up
  int first;           // first output column
};

class CudaLinear final : public Linear {
 public:
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  size_t bytes() const override { return bytes_; }

  static constexpr int kMaxParts = 4;
  PackedPart parts[kMaxParts] = {};
  int part_count = 0;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  int blocks = 0;  // of 128 columns, `lead` included
  int lead = 0;    // zero columns in front, so that a shard keeps the checkpoint's grid of scale blocks
  size_t bytes_ = 0;
};

struct Product {  // one part of one linear layer, as the kernels see it
  const uint8_t* data;
  const float* scale;
  float* y;  // output column of the part's first row; unused in a gated product
  int boundary;
  int rows;
  int groups;
  int ld_y;
  int tile_begin;  // first tile of this part in the launch
};

struct Products {  // products of one input, in one launch
  static constexpr int kMax = 8;
  Product product[kMax];
  int count;
  const uint16_t* x;  // [m, ld_x] bfloat16, `blocks * 128` columns, zeros where the weight is padded
  int ld_x;
  int m;
  int blocks;
  uint16_t* gated;     // [m, rows] or null: bf16(silu(first product) * second), in place of both products' own outputs
  int64_t run_stride;  // not 0: each y is the first of kSplits outputs, so many floats apart, that take the runs unadded
};

__host__ __device__ inline int split_begin(int blocks, int split) { return blocks * split / kSplits; }

}  // namespace paceline::ops::cuda
