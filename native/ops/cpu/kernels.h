// The kernels of one instruction set as a table of functions. Each isa/<name>.cc fills one table from the same sources in simd/,
// compiled with its own flags; linear/<name>.cc holds the products. Everything here runs on one thread: the operations split the
// work.
#pragma once

#include <cstdint>

namespace paceline::ops::cpu {

constexpr int kBlockColumns = 32;     // output features of a packed block
constexpr int kScaleBlock = 128;      // side of an FP8 scale block
constexpr int kAttentionSplit = 256;  // positions of an attention split: a fixed size, so that the order of sums never changes

// One packed part of a Linear: [blocks][depth / 2][32][2], pairs of input features side by side.
struct PackedPart {
  bool fp8;              // FP8 E4M3 bytes with scales, else bfloat16
  int64_t rows;          // output features
  int64_t cols;          // input features
  int64_t lead;          // zero columns before the first, so that blocks of 128 fall on the tensor's own scale grid
  int64_t depth;         // lead + cols, rounded up to 32 (bfloat16) or 128 (FP8)
  int64_t blocks;        // rows / 32, rounded up
  int64_t column;        // where the part's outputs start in a row of y
  const uint8_t* data;   // FP8: the eight groups of 4 columns of a block stand in the order 0 4 1 5 2 6 3 7
  const float* scale;    // [blocks][depth / 128][2]: the scale of the columns before `split` and of the others
  const int32_t* split;  // [blocks]: columns of the block that take the first scale, 1..32
};

struct LinearCall {
  const PackedPart* part;
  const uint16_t* x;  // [rows, ld_x] bfloat16, starting at the first of the `depth` packed columns
  int64_t ld_x;
  int rows;
  const uint16_t*
      tail;  // the last rows % 16 rows of x, padded with zero rows to 16 (row length depth); null for fewer than 16 rows
  float* y;  // [rows, ld_y], at the part's first column
  int64_t ld_y;
  int64_t first, last;  // blocks to compute
  float* ragged;        // [round_up(rows, 16), 32] scratch for a block with fewer than 32 columns
};

using LinearKernel = void (*)(const LinearCall& call);

struct HeadNorm {       // RMS norm of one head, then RoPE of its leading dimensions
  const float* weight;  // [head_dim]
  const float* rope;    // cos (rotary_dim / 2), sin (rotary_dim / 2) of the position
  float eps;
  int head_dim, rotary_dim;
};

struct AttendCall {      // the query heads that share a KV head, of consecutive rows of one slot
  int rows;              // their positions ascend by one
  int position;          // of the first row; row i sees position + i + 1 keys
  int heads;             // query heads in the group
  const float* queries;  // first query head of the first row
  const float* gate;     // likewise of the gates, or null
  int64_t ld;            // elements from a row to the next
  int64_t query_stride;  // elements from a head to the next
  HeadNorm norm;         // q_norm, with the rope of the first row
  const uint16_t* keys;  // [position + rows, head_dim] bfloat16
  const uint16_t* values;
  float* scratch;  // attend_scratch(rows * heads, head_dim) floats
  uint16_t* out;   // [rows, ld_out], at the group's first head: [heads, head_dim] bfloat16
  int64_t ld_out;
};

constexpr int64_t attend_scratch(int queries, int head_dim) {
  constexpr int64_t kMostTileRows = 4;
  return static_cast<int64_t>(queries) * (2 * head_dim + 2) + kMostTileRows * (head_dim + kAttentionSplit);
}

struct ConvolveCall {  // `width` channels from one on, for one run of rows in one slot
  const float* in;     // [rows, ld_in], at the first channel
  int64_t ld_in;
  int rows, width, kernel;
  const float* weight;  // [kernel, width]: transposed
  float* state;         // [kernel - 1, ld_state], at the first channel
  int64_t ld_state;
  bool fresh;  // the state counts as zero
  float* out;  // [rows, ld_out], at the first channel: silu(convolution)
  int64_t ld_out;
};

struct DeltaCall {  // one value head of one run of rows in one slot
  int rows;
  const float *q, *k, *v;  // [rows, ld] after the convolution
  int64_t ld;
  const float *log_decay, *beta;  // [rows]
  const float* z;                 // [rows, ld_z]
  int64_t ld_z;
  const float* norm;  // [value_dim]
  float eps;
  int key_dim, value_dim;
  int position;    // of the first row: chunks end where positions are multiples of 64
  float* state;    // [value_dim, key_dim]
  float* scratch;  // delta_scratch(key_dim, value_dim) floats
  uint16_t* out;   // [rows, ld_out]
  int64_t ld_out;
};

constexpr int kDeltaChunk = 64;  // rows of a chunk of the chunked form

constexpr int64_t delta_scratch(int key_dim, int value_dim) {
  const int64_t chunk = kDeltaChunk;
  return chunk * (2 * key_dim + 3 * value_dim + 2 * chunk + 4) + 2 * key_dim + 2 * value_dim + 64;
}

struct VectorKernels {
  void (*rms_norm)(const float* x, const float* weight, float eps, int width, uint16_t* out);
  void (*swiglu)(const float* gate, const float* up, int64_t count, uint16_t* out);
  void (*widen_bf16)(const uint16_t* in, int64_t count, float* out);
  void (*argmax)(const float* x, int width, float* value, int32_t* index);
  void (*add)(const float* const* partials, int ranks, int64_t first, int64_t last, float* target);
  void (*store_key_value)(const HeadNorm& norm, const float* key, const float* value, uint16_t* key_out, uint16_t* value_out,
                          float* scratch);
  void (*attend)(const AttendCall& call);
  void (*convolve)(const ConvolveCall& call);
  void (*delta_sequential)(const DeltaCall& call);
  void (*delta_chunked)(const DeltaCall& call);
};

const VectorKernels& portable_kernels();
void portable_linear(const LinearCall& call);
#if defined(PACELINE_X86)
const VectorKernels& avx2_kernels();
const VectorKernels& avx512_kernels();
void avx2_linear(const LinearCall& call);
void avx512_linear(const LinearCall& call);
void avx512_bf16_linear(const LinearCall& call);
void amx_linear(const LinearCall& call);
#endif

}  // namespace paceline::ops::cpu
