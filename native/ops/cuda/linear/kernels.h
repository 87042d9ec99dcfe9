// The products' kernels, by the number of rows that they serve. All keep the order of sums that layout.h states.
#pragma once

#include "ops/cuda/linear/layout.h"
#include "ops/cuda/runtime.h"

namespace paceline::ops::cuda {

constexpr int kSkinnyRows = 16;
constexpr int kGatedRows = 8;

// Parts of a gated product are FP8 both, with as many rows; it serves up to kGatedRows.
void run_skinny(const Launch& where, Products all);  // 1 to 16 rows
void run_tiled(const Launch& where, Products all);   // any number, not gated; meant for 17 and more
void run_simt(const Launch& where, Products all);    // any number, not gated, without tensor cores: compute capability 7.5

// FP8 products alone, not gated; meant for 17 and more rows, where prepare_warpgroups allows it. `arranged` is scratch memory.
void run_warpgroups(const Launch& where, Products all, uint8_t* arranged);
size_t arranged_bytes(const Products& all);

// Whether this product had better leave its runs to whoever reads it (Products::run_stride): output rows alone would not keep all
// multiprocessors busy.
bool leaves_runs(const Launch& where, const Products& all);

// Once a device, before its first product.
void prepare_skinny(int shared_optin);
void prepare_tiled(int shared_optin);
bool prepare_warpgroups(int shared_optin);  // whether this device runs them

}  // namespace paceline::ops::cuda
