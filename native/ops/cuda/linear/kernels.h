// The products' kernels, by the number of rows that they serve. All keep the order of sums that layout.h states.
#pragma once

#include "ops/cuda/linear/layout.h"
#include "ops/cuda/runtime.h"

namespace paceline::ops::cuda {

constexpr int kSkinnyRows = 16;

// Weights of a gated product have the same type in both parts, and as many rows.
void run_skinny(const Launch& where, Products all);  // 1 to 16 rows
void run_tiled(const Launch& where, Products all);   // any number, not gated; meant for 17 and more
void run_simt(const Launch& where, Products all);    // any number, not gated, without tensor cores: compute capability 7.5

// Once a device, before its first product.
int prepare_skinny(int multiprocessors);  // returns how many of its blocks the device holds at a time
void prepare_tiled();

}  // namespace paceline::ops::cuda
