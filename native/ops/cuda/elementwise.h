// Kernels that do one thing a row: embedding, norm, activation, picking rows, largest logit, sums of partials.
#pragma once

#include <span>

#include "base/types.h"
#include "ops/cuda/runtime.h"

namespace paceline::ops::cuda {

// hidden[i] = table[token[i]]; table [vocabulary, width] of `dtype` on the device.
void run_embed(const Launch& where, const int32_t* token, int rows, const void* table, DType dtype, int width, float* hidden);

// What is to be added to an array: the sum of `runs` arrays that lie `stride` floats apart, added up in ascending order.
struct Addend {
  const float* first;  // null: nothing
  int runs;
  int64_t stride;
};

// out = bf16(x * rsqrt(mean(x^2) + eps) * weight), a block a row. With a partial, x += partial first, and x is updated.
struct RmsNorm {
  float* x;             // [rows, width]
  Addend partial;       // of [rows, width]
  const float* weight;  // [width]
  float eps;
  int width;
  uint16_t* out;  // [rows, width] bfloat16
};
void run_rms_norm(const Launch& where, const RmsNorm& norm, int rows);

// gate_up: [rows, 2 * width], or the runs of it.
void run_swiglu(const Launch& where, const Addend& gate_up, int rows, int width, uint16_t* out);
void run_gather(const Launch& where, const float* in, const int32_t* index, int count, int width, float* out);
void run_add(const Launch& where, std::span<const float* const> partials, int64_t count, float* target);  // up to 16 of them
void run_add(const Launch& where, const Addend& addend, int64_t count, float* target);

// Outputs of products whose runs lie side by side, [run][row][ld_runs]: y = the runs' sum.
struct Collection {
  static constexpr int kMax = 8;
  struct Output {
    int64_t offset;  // of its first column in a row of runs
    int width;
    float* y;  // [rows, ld]
    int ld;
  };
  Output output[kMax];
  int count;
  Addend runs;
  int ld_runs;
  int rows;
};
void run_collect(const Launch& where, const Collection& collection);

// Brings rows of bfloat16 to a padded row length: `lead` zeros, the row, zeros.
void run_pad(const Launch& where, const uint16_t* x, int rows, int cols, int lead, int ld, uint16_t* out);

// The architecture that this backend's kernels were compiled for, as the current device runs them: 10 * major + minor.
int compiled_architecture();

constexpr int kArgmaxParts = 64;
struct ArgmaxScratch {  // [rows, kArgmaxParts]
  float* value;
  int32_t* index;
};
void run_argmax(const Launch& where, const float* x, int rows, int width, int ld, const ArgmaxScratch& scratch, float* value,
                int32_t* index);

}  // namespace paceline::ops::cuda
