// Products of many rows (prefill). A block of four warps computes 128 output rows (BF16: 64) for 32 or 64 tokens, in the order of
// sums that the skinny kernel has, so that a prompt's bits do not depend on its company: a warp has its output rows over all of
// K, run by run, or, where output rows alone would not keep the device busy, one run, and leaves the runs to the reader. Weights
// and activations of a block of 128 columns come through a ring of asynchronous copies.
#include "ops/cuda/linear/fragments.cuh"
#include "ops/cuda/linear/kernels.h"

namespace paceline::ops::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kStages = 3;
constexpr int kWarpBytes = 4096;  // weights of a warp in a stage: two groups of FP8, one of BF16
constexpr int kScaleBytes = 32;   // of a warp in a stage

template <int kTiles>
struct Stage {
  static constexpr int kTokens = 8 * kTiles;
  static constexpr int kInputs = kTokens * kBlock * 2;
  static constexpr int kScales = kInputs + kWarps * kWarpBytes;
  static constexpr int kBytes = kScales + kWarps * kScaleBytes;
};

// Where a token's 16 bytes of a stage lie: the slot is permuted by the token, so that eight tokens hit different banks.
__device__ __forceinline__ int input_offset(int token, int slot) { return token * kBlock * 2 + ((slot ^ (token % 8)) * 16); }

// One warp's copies: its weights, and its share of the block's activations.
template <bool kFp8, int kTiles>
class Feeder {
 public:
  static constexpr int kGroups = kFp8 ? 2 : 1;
  static constexpr int kBytes = kWarpBytes / kGroups;
  using Layout = Stage<kTiles>;

  __device__ Feeder(const Products& all, const Product& p, int group, int first_token, uint8_t* shared)
      : all_(all), shared_(shared), warp_(threadIdx.x / 32), lane_(threadIdx.x % 32), first_token_(first_token) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      real_[g] = group + g < p.groups;
      const size_t index = static_cast<size_t>(real_[g] ? group + g : 0) * all.blocks;
      source_[g] = p.data + index * kBytes + lane_ * 16;
      if (kFp8 && lane_ == g) scales_ = p.scale + index * 2;
    }
  }

  __device__ __forceinline__ void fetch(int block, int end) {
    if (block < end) {
      uint8_t* stage = shared_ + next_ * Layout::kBytes;
      uint8_t* weights = stage + Layout::kInputs + warp_ * kWarpBytes + lane_ * 16;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int i = 0; i < kBytes; i += 512)
          copy_async(weights + g * kBytes + i, source_[g] + static_cast<size_t>(block) * kBytes + i, real_[g]);
      }
      if (kFp8 && lane_ < kGroups)
        copy_scales_async(stage + Layout::kScales + warp_ * kScaleBytes + lane_ * 8, scales_ + block * 2);
#pragma unroll
      for (int i = threadIdx.x; i < Layout::kTokens * 16; i += kWarps * 32) {
        const int token = i / 16, slot = i % 16;
        const bool there = first_token_ + token < all_.m;
        const uint16_t* from =
            all_.x + static_cast<size_t>(there ? first_token_ + token : 0) * all_.ld_x + block * kBlock + slot * 8;
        copy_async(stage + input_offset(token, slot), from, there);
      }
      next_ = next_ + 1 == kStages ? 0 : next_ + 1;
    }
    commit_copies();
  }

  // The oldest stage, once it is there for all warps.
  __device__ __forceinline__ const uint8_t* take() {
    wait_copies<kStages - 2>();
    __syncthreads();  // and the stage before it is free again
    const uint8_t* stage = shared_ + first_ * Layout::kBytes;
    first_ = first_ + 1 == kStages ? 0 : first_ + 1;
    return stage;
  }

 private:
  const Products& all_;
  uint8_t* shared_;
  int warp_, lane_, first_token_;
  const uint8_t* source_[kGroups];
  bool real_[kGroups];
  const float* scales_ = nullptr;  // of the group that this lane fetches for
  int next_ = 0;
  int first_ = 0;
};

template <bool kFp8, int kTiles>
__device__ __forceinline__ void multiply(const uint8_t* stage, int boundary, int warp, int lane,
                                         float (&acc)[kFp8 ? 2 : 1][kTiles][4]) {
  constexpr int kGroups = kFp8 ? 2 : 1;
  using Layout = Stage<kTiles>;
  Chunk a[kGroups][4];
  RowScales scale[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    scale[g] = {1.0f, 1.0f};
    if constexpr (kFp8)
      scale[g] =
          pick_scales(reinterpret_cast<const float*>(stage + Layout::kScales + warp * kScaleBytes + g * 8), boundary, lane);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      a[g][j] = load_chunk<kFp8>(stage + Layout::kInputs + warp * kWarpBytes + g * (kWarpBytes / kGroups), j, lane);
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    float c[kGroups][4] = {}, d[kGroups][4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint4 x = *reinterpret_cast<const uint4*>(stage + input_offset(t * 8 + lane / 4, j * 4 + lane % 4));
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        mma(c[g], a[g][j].first, x.x, x.y);
        mma(d[g], a[g][j].second, x.z, x.w);
      }
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) add_block(acc[g][t], c[g], d[g], scale[g]);
  }
}

template <int kGroups, int kTiles>
struct Sums {
  float value[kGroups][kTiles][4];

  __device__ __forceinline__ void add(const float (&acc)[kGroups][kTiles][4]) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) value[g][t][i] += acc[g][t][i];
      }
    }
  }
};

template <int kGroups, int kTiles>
__device__ __forceinline__ void store(const float (&sum)[kGroups][kTiles][4], int group, int first_token, int m, const Product& p,
                                      float* y) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = first_token + t * 8 + (lane % 4) * 2 + i % 2;
        const int n = (group + g) * kGroup + lane / 4 + (i / 2) * 8;
        if (token < m && n < p.rows) y[static_cast<size_t>(token) * p.ld_y + n] = sum[g][t][i];
      }
    }
  }
}

// kAlone: this block has one run, and leaves it to the reader.
template <bool kFp8, int kTiles, bool kAlone>
__device__ void run(const Products& all, const Product& p, int first_group, int first_token, uint8_t* shared) {
  constexpr int kGroups = kFp8 ? 2 : 1;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = first_group + warp * kGroups;
  const int first_run = kAlone ? static_cast<int>(blockIdx.z) : 0, last_run = kAlone ? first_run + 1 : kSplits;
  const int last = split_begin(all.blocks, last_run);
  Feeder<kFp8, kTiles> feeder(all, p, group, first_token, shared);
  int block = split_begin(all.blocks, first_run);
  for (int i = 0; i < kStages - 1; ++i) feeder.fetch(block + i, last);

  Sums<kAlone ? 1 : kGroups, kAlone ? 1 : kTiles> total = {};  // of the runs so far
#pragma unroll 1
  for (int split = first_run; split < last_run; ++split) {
    float acc[kGroups][kTiles][4] = {};
#pragma unroll 1
    for (const int end = split_begin(all.blocks, split + 1); block < end; ++block) {
      const uint8_t* stage = feeder.take();
      feeder.fetch(block + kStages - 1, last);
      multiply<kFp8, kTiles>(stage, p.boundary, warp, lane, acc);
    }
    if constexpr (kAlone) {
      store<kGroups, kTiles>(acc, group, first_token, all.m, p, p.y + first_run * all.run_stride);
    } else {
      total.add(acc);
    }
  }
  wait_copies<0>();
  if constexpr (!kAlone) store<kGroups, kTiles>(total.value, group, first_token, all.m, p, p.y);
}

template <int kTiles, bool kAlone>
__global__ void __launch_bounds__(kWarps * 32, kTiles == 4 ? 3 : 2) tiled(const __grid_constant__ Products all) {
  extern __shared__ __align__(128) uint8_t shared[];
  let_next_start();
  wait_for_inputs();
  int i = 0;
  while (i + 1 < all.count && static_cast<int>(blockIdx.y) >= all.product[i + 1].tile_begin) ++i;
  const Product& p = all.product[i];
  const int tile = static_cast<int>(blockIdx.y) - p.tile_begin;
  // Tokens are the fastest: blocks of the same weights run together and meet in the second-level cache.
  const int first_token = static_cast<int>(blockIdx.x) * Stage<kTiles>::kTokens;
  if (p.scale != nullptr) {
    run<true, kTiles, kAlone>(all, p, tile * kWarps * 2, first_token, shared);
  } else {
    run<false, kTiles, kAlone>(all, p, tile * kWarps, first_token, shared);
  }
}

template <int kTiles, bool kAlone>
void start(const Launch& where, const Products& all, int tiles) {
  const int tokens = Stage<kTiles>::kTokens;
  const dim3 grid(static_cast<unsigned>((all.m + tokens - 1) / tokens), static_cast<unsigned>(tiles),
                  kAlone ? static_cast<unsigned>(kSplits) : 1u);
  launch(where, tiled<kTiles, kAlone>, grid, dim3(kWarps * 32), static_cast<size_t>(kStages) * Stage<kTiles>::kBytes, all);
}

template <int kTiles, bool kAlone>
void allow(int shared_optin) {
  constexpr int kNeeded = kStages * Stage<kTiles>::kBytes;
  if (kNeeded > shared_optin) return;
  check(cudaFuncSetAttribute(tiled<kTiles, kAlone>, cudaFuncAttributeMaxDynamicSharedMemorySize, kNeeded),
        "cudaFuncSetAttribute(tiled)");
}

}  // namespace

void prepare_tiled(int shared_optin) {
  allow<4, false>(shared_optin);
  allow<4, true>(shared_optin);
  allow<8, false>(shared_optin);
  allow<8, true>(shared_optin);
}

void run_tiled(const Launch& where, Products all) {
  int tiles = 0;
  for (int i = 0; i < all.count; ++i) {
    const int groups = kWarps * (all.product[i].scale != nullptr ? 2 : 1);
    all.product[i].tile_begin = tiles;
    tiles += (all.product[i].groups + groups - 1) / groups;
  }
  const bool narrow_tokens = all.m <= Stage<4>::kTokens || where.shared_optin < kStages * Stage<8>::kBytes;
  if (all.run_stride != 0) {
    narrow_tokens ? start<4, true>(where, all, tiles) : start<8, true>(where, all, tiles);
  } else {
    narrow_tokens ? start<4, false>(where, all, tiles) : start<8, false>(where, all, tiles);
  }
}

}  // namespace paceline::ops::cuda
