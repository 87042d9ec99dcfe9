// Products of many rows (prefill): a block computes 128 output rows for 64 tokens; each of its eight warps has 16 output rows
// over all of K, run by run, in the order of sums that the skinny kernel has, so that a prompt's bits do not depend on its
// company. Weights and activations of a block of 128 columns come through a ring of asynchronous copies.
#include "ops/cuda/linear/fragments.cuh"
#include "ops/cuda/linear/kernels.h"

namespace paceline::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kTokens = 64;
constexpr int kTiles = kTokens / 8;
constexpr int kInputBytes = kTokens * kBlock * 2;  // activations of a stage
constexpr int kWeightBytes = kWarps * 4096;        // BF16; FP8 takes half
constexpr int kScalesAt = kInputBytes + kWeightBytes;
constexpr int kScaleBytes = kWarps * 16;
constexpr int kStageBytes = kInputBytes + kWeightBytes + kScaleBytes;

// Where a token's 16 bytes of a stage lie: the slot is permuted by the token, so that eight tokens hit different banks.
__device__ __forceinline__ int input_offset(int token, int slot) { return token * kBlock * 2 + ((slot ^ (token % 8)) * 16); }

template <bool kFp8, int kStages>
__device__ void run(const Products& all, const Product& p, int first_group, int first_token, uint8_t* shared) {
  constexpr int kBytes = kFp8 ? 2048 : 4096;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = first_group + warp;
  const bool real = group < p.groups;
  const uint8_t* source = p.data + static_cast<size_t>(real ? group : 0) * all.blocks * kBytes;
  const float* scales = kFp8 ? p.scale + static_cast<size_t>(real ? group : 0) * all.blocks * 2 : nullptr;
  const int tokens = min(kTokens, all.m - first_token);

  const auto fetch = [&](int block) {
    if (block < all.blocks) {
      uint8_t* stage = shared + (block % kStages) * kStageBytes;
#pragma unroll
      for (int i = 0; i < kBytes; i += 512) {
        copy_async(stage + kInputBytes + warp * kBytes + i + lane * 16,
                   source + static_cast<size_t>(block) * kBytes + i + lane * 16, real);
      }
      if (kFp8 && lane == 0) copy_scales_async(stage + kScalesAt + warp * 16, scales + block * 2);
#pragma unroll
      for (int i = threadIdx.x; i < kTokens * 16; i += kWarps * 32) {
        const int token = i / 16, slot = i % 16;
        const bool there = token < tokens;
        const uint16_t* from =
            all.x + static_cast<size_t>(first_token + (there ? token : 0)) * all.ld_x + block * kBlock + slot * 8;
        copy_async(stage + input_offset(token, slot), from, there);
      }
    }
    commit_copies();
  };
  for (int i = 0; i < kStages - 1; ++i) fetch(i);

  float total[kTiles][4] = {};
  int block = 0;
#pragma unroll 1
  for (int split = 0; split < kSplits; ++split) {
    float acc[kTiles][4] = {};
#pragma unroll 1
    for (const int end = split_begin(all.blocks, split + 1); block < end; ++block) {
      wait_copies<kStages - 2>();
      __syncthreads();  // the stage is there for all warps, and the one before it is free again
      fetch(block + kStages - 1);
      const uint8_t* stage = shared + (block % kStages) * kStageBytes;
      RowScales scale = {1.0f, 1.0f};
      if constexpr (kFp8) scale = pick_scales(reinterpret_cast<const float*>(stage + kScalesAt + warp * 16), p.boundary, lane);
      Chunk a[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) a[j] = load_chunk<kFp8>(stage + kInputBytes + warp * kBytes, j, lane);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        float c[4] = {}, d[4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint4 x = *reinterpret_cast<const uint4*>(stage + input_offset(t * 8 + lane / 4, j * 4 + lane % 4));
          mma(c, a[j].first, x.x, x.y);
          mma(d, a[j].second, x.z, x.w);
        }
        add_block(acc[t], c, d, scale);
      }
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total[t][i] += acc[t][i];
    }
  }
  wait_copies<0>();
  if (!real) return;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = first_token + t * 8 + (lane % 4) * 2 + i % 2;
      const int n = group * kGroup + lane / 4 + (i / 2) * 8;
      if (token < all.m && n < p.rows) p.y[static_cast<size_t>(token) * p.ld_y + n] = total[t][i];
    }
  }
}

template <int kStages>
__global__ void __launch_bounds__(kWarps * 32) tiled(const __grid_constant__ Products all) {
  extern __shared__ __align__(128) uint8_t shared[];
  let_next_start();
  wait_for_inputs();
  int i = 0;
  while (i + 1 < all.count && static_cast<int>(blockIdx.y) >= all.product[i + 1].tile_begin) ++i;
  const Product& p = all.product[i];
  const int first_group = (static_cast<int>(blockIdx.y) - p.tile_begin) * kWarps;
  const int first_token =
      static_cast<int>(blockIdx.x) * kTokens;  // fastest: blocks of the same weights run together and meet in L2
  if (p.scale != nullptr) {
    run<true, kStages>(all, p, first_group, first_token, shared);
  } else {
    run<false, kStages>(all, p, first_group, first_token, shared);
  }
}

}  // namespace

void prepare_tiled() {
  int device = 0, most = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "cudaDeviceGetAttribute");
  check(cudaFuncSetAttribute(tiled<2>, cudaFuncAttributeMaxDynamicSharedMemorySize, 2 * kStageBytes),
        "cudaFuncSetAttribute(tiled)");
  if (most < 4 * kStageBytes) return;
  check(cudaFuncSetAttribute(tiled<4>, cudaFuncAttributeMaxDynamicSharedMemorySize, 4 * kStageBytes),
        "cudaFuncSetAttribute(tiled)");
}

void run_tiled(const Launch& where, Products all) {
  int tiles = 0;
  for (int i = 0; i < all.count; ++i) {
    all.product[i].tile_begin = tiles;
    tiles += (all.product[i].groups + kWarps - 1) / kWarps;
  }
  const dim3 grid(static_cast<unsigned>((all.m + kTokens - 1) / kTokens), static_cast<unsigned>(tiles));
  if (where.shared_optin >= 4 * kStageBytes) {
    launch(where, tiled<4>, grid, dim3(kWarps * 32), 4 * kStageBytes, all);
  } else {
    launch(where, tiled<2>, grid, dim3(kWarps * 32), 2 * kStageBytes, all);
  }
}

}  // namespace paceline::ops::cuda
