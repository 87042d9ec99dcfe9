// Products of 1 to 16 rows: the weights stream once, at the memory's speed, whatever the width.
//
// A block of four warps computes up to `kGroups` groups of 16 output rows; a warp takes one of the four runs of K. Each warp has
// a ring of its own in shared memory that it fills with asynchronous copies, so there is no barrier but the one before the runs
// are added. The ring starts to fill before the previous kernel has ended: weights depend on nothing.
#include <algorithm>

#include "ops/cuda/linear/fragments.cuh"
#include "ops/cuda/linear/kernels.h"

namespace paceline::ops::cuda {
namespace {

constexpr int kRingBytes = 24832;  // a warp: three stages of four FP8 groups with their scales
constexpr int kShared = kSplits * kRingBytes;

// How the groups of a launch are dealt out: `full` blocks of kGroups, then blocks of `tail`, so that the last wave of blocks is
// short.
struct Tiling {
  int full;
  int tail;
};

template <int kGroups>
__device__ __forceinline__ int first_group_of(const Tiling& tiling, int tile) {
  return tile < tiling.full ? tile * kGroups : tiling.full * kGroups + (tile - tiling.full) * tiling.tail;
}

// One lane's activations for a block of 128 columns: 4 chunks of 16 bytes for each 8 tokens.
template <int kTiles>
struct Inputs {
  uint4 chunk[kTiles][4];

  __device__ __forceinline__ void load(const Products& all, int block, int lane) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int token = t * 8 + lane / 4;
      const uint16_t* source = all.x + static_cast<size_t>(token) * all.ld_x + block * kBlock + (lane % 4) * 8;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        chunk[t][j] = token < all.m ? *reinterpret_cast<const uint4*>(source + j * 32) : make_uint4(0, 0, 0, 0);
      }
    }
  }
};

// A warp's part of the weights: `kGroups` groups over the blocks [begin, end) of K, through a ring of stages.
template <bool kFp8, int kGroups>
class Stream {
 public:
  static constexpr int kBytes = kFp8 ? 2048 : 4096;                    // of a block
  static constexpr int kStage = kGroups * (kBytes + (kFp8 ? 16 : 0));  // its weights, then its scales
  static constexpr int kStages = kRingBytes / kStage;
  static_assert(kStages >= 3);

  // Groups at and beyond `half` come from `second`, `half` places lower: the gate and the up part of a gated product.
  __device__ Stream(const Product& first, const Product& second, int first_group, int groups, int half, int blocks, uint8_t* ring)
      : ring_(ring), lane_(threadIdx.x % 32) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const Product& p = g < half ? first : second;
      const int place = g < half ? g : g - half;
      real_[g] = place < groups;
      const size_t index = static_cast<size_t>(first_group + (real_[g] ? place : 0)) * blocks;
      source_[g] = p.data + index * kBytes + lane_ * 16;
      if (kFp8 && lane_ == g) scale_ = p.scale + index * 2;
    }
  }

  __device__ __forceinline__ void fetch(int block, int end) {
    if (block < end) {
      uint8_t* stage = ring_ + next_ * kStage;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int i = 0; i < kBytes; i += 512) {
          copy_async(stage + g * kBytes + i + lane_ * 16, source_[g] + static_cast<size_t>(block) * kBytes + i, real_[g]);
        }
      }
      if (kFp8 && lane_ < kGroups) copy_scales_async(stage + kGroups * kBytes + lane_ * 16, scale_ + block * 2);
      next_ = next_ + 1 == kStages ? 0 : next_ + 1;
    }
    commit_copies();
  }

  // The oldest stage, once it is there. Valid until the fetch after the next call of `take`... which must follow a __syncwarp.
  __device__ __forceinline__ const uint8_t* take() {
    wait_copies<kStages - 1>();
    __syncwarp();
    const uint8_t* stage = ring_ + first_ * kStage;
    first_ = first_ + 1 == kStages ? 0 : first_ + 1;
    return stage;
  }

 private:
  uint8_t* ring_;
  int lane_;
  const uint8_t* source_[kGroups];
  bool real_[kGroups];
  const float* scale_ = nullptr;  // of the group that this lane fetches for
  int next_ = 0;
  int first_ = 0;
};

template <bool kFp8, int kGroups, int kTiles>
__device__ __forceinline__ void multiply(const uint8_t* stage, const Inputs<kTiles>& x, int boundary, int lane,
                                         float (&acc)[kGroups][kTiles][4]) {
  constexpr int kBytes = Stream<kFp8, kGroups>::kBytes;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    float c[kTiles][4] = {}, d[kTiles][4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const Chunk a = load_chunk<kFp8>(stage + g * kBytes, j, lane);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        mma(c[t], a.first, x.chunk[t][j].x, x.chunk[t][j].y);
        mma(d[t], a.second, x.chunk[t][j].z, x.chunk[t][j].w);
      }
    }
    RowScales scale = {1.0f, 1.0f};
    if constexpr (kFp8) scale = pick_scales(reinterpret_cast<const float*>(stage + kGroups * kBytes + g * 16), boundary, lane);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) add_block(acc[g][t], c[t], d[t], scale);
  }
}

// The runs meet in shared memory, [run][group][row: 16][token: 8 * kTiles], and are added in ascending order.
template <int kGroups, int kTiles>
class Sums {
 public:
  static constexpr int kTokens = 8 * kTiles;
  static constexpr int kRow = kTokens + 1;  // one more, against bank conflicts

  __device__ explicit Sums(uint8_t* shared) : sums_(reinterpret_cast<float*>(shared)) {}

  __device__ __forceinline__ void store(const float (&acc)[kGroups][kTiles][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        float* at = sums_ + ((warp * kGroups + g) * 16 + lane / 4) * kRow + t * 8 + (lane % 4) * 2;
        at[0] = acc[g][t][0];
        at[1] = acc[g][t][1];
        at[8 * kRow] = acc[g][t][2];
        at[8 * kRow + 1] = acc[g][t][3];
      }
    }
  }

  __device__ __forceinline__ float at(int row, int token) const {
    float sum = 0;
#pragma unroll
    for (int s = 0; s < kSplits; ++s) sum += sums_[(s * kGroups * 16 + row) * kRow + token];
    return sum;
  }

 private:
  float* sums_;
};

template <bool kFp8, int kGroups, int kTiles>
__device__ void run(const Products& all, const Product& p, int first_group, int groups, uint8_t* shared) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int begin = split_begin(all.blocks, warp), end = split_begin(all.blocks, warp + 1);
  const bool gated = all.gated != nullptr;
  const int half = gated ? kGroups / 2 : kGroups;
  using Ring = Stream<kFp8, kGroups>;
  Ring ring(p, gated ? all.product[1] : p, first_group, groups, half, all.blocks, shared + warp * kRingBytes);
  for (int i = 0; i < Ring::kStages - 1; ++i) ring.fetch(begin + i, end);
  let_next_start();
  wait_for_inputs();

  float acc[kGroups][kTiles][4] = {};
  Inputs<kTiles> x;
  if (begin < end) x.load(all, begin, lane);
  for (int block = begin; block < end; ++block) {
    ring.fetch(block + Ring::kStages - 1, end);
    const uint8_t* stage = ring.take();
    Inputs<kTiles> next = x;
    if (block + 1 < end) next.load(all, block + 1, lane);
    multiply<kFp8, kGroups, kTiles>(stage, x, p.boundary, lane, acc);
    x = next;
    __syncwarp();  // the stage may be filled again
  }
  wait_copies<0>();
  __syncthreads();  // the rings become the place where the runs meet
  Sums<kGroups, kTiles> sums(shared);
  sums.store(acc);
  __syncthreads();
  const int rows = min(groups * 16, p.rows - first_group * 16);
  for (int i = threadIdx.x; i < rows * all.m; i += blockDim.x) {
    const int token = i / rows, row = i % rows;
    const int n = first_group * 16 + row;
    const float sum = sums.at(row, token);
    if (gated) {
      all.gated[static_cast<size_t>(token) * p.rows + n] = narrow(silu(sum) * sums.at(row + half * 16, token));
    } else {
      p.y[static_cast<size_t>(token) * p.ld_y + n] = sum;
    }
  }
}

template <int kGroups, int kTiles>
__global__ void __launch_bounds__(kSplits * 32, 2)
    skinny(const __grid_constant__ Products all, const __grid_constant__ Tiling tiling) {
  extern __shared__ __align__(128) uint8_t shared[];
  int i = 0;
  if (all.gated == nullptr) {
    while (i + 1 < all.count && static_cast<int>(blockIdx.x) >= all.product[i + 1].tile_begin) ++i;
  }
  const Product& p = all.product[i];
  const int tile = static_cast<int>(blockIdx.x) - p.tile_begin;
  const int parts = all.gated != nullptr ? 2 : 1;
  if (p.scale != nullptr) {
    const int most = kGroups / parts;
    const int first = parts == 2 ? first_group_of<kGroups / 2>(tiling, tile) : first_group_of<kGroups>(tiling, tile);
    run<true, kGroups, kTiles>(all, p, first, min(tile < tiling.full ? most : tiling.tail, p.groups - first), shared);
  } else {
    constexpr int kWide = kGroups / 2;
    const int most = max(kWide / parts, 1);
    const int first =
        parts == 2 ? first_group_of<(kWide > 1 ? kWide / 2 : 1)>(tiling, tile) : first_group_of<kWide>(tiling, tile);
    run<false, kWide, kTiles>(all, p, first, min(tile < tiling.full ? most : tiling.tail, p.groups - first), shared);
  }
}

// Several products share a launch with full tiles only; a product of its own ends in tiles that fill the last wave evenly.
template <int kGroups, int kTiles>
void start(const Launch& where, Products& all) {
  const int parts = all.gated != nullptr ? 2 : 1;
  const auto most = [&](const Product& p) { return std::max((p.scale != nullptr ? kGroups : kGroups / 2) / parts, 1); };
  Tiling tiling = {INT32_MAX, 0};
  int tiles = 0;
  if (all.count == parts) {
    const Product& p = all.product[0];
    const int slots = std::max(where.skinny_blocks, 1);
    tiling.full = p.groups / (most(p) * slots) * slots;
    const int rest = p.groups - tiling.full * most(p);
    tiling.tail = std::max((rest + slots - 1) / slots, 1);
    tiles = tiling.full + (rest + tiling.tail - 1) / tiling.tail;
  } else {
    for (int i = 0; i < all.count; ++i) {
      all.product[i].tile_begin = tiles;
      tiles += (all.product[i].groups + most(all.product[i]) - 1) / most(all.product[i]);
    }
  }
  launch(where, skinny<kGroups, kTiles>, dim3(static_cast<unsigned>(tiles)), dim3(kSplits * 32), kShared, all, tiling);
}

template <int kGroups, int kTiles>
void allow() {
  check(cudaFuncSetAttribute(skinny<kGroups, kTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
        "cudaFuncSetAttribute(skinny)");
}

}  // namespace

int prepare_skinny(int multiprocessors) {
  allow<4, 1>();
  allow<2, 1>();
  allow<4, 2>();
  allow<2, 2>();
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, skinny<4, 1>, kSplits * 32, kShared),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return multiprocessors * blocks;
}

void run_skinny(const Launch& where, Products all) {
  int groups = 0;
  for (int i = 0; i < all.count; ++i) groups += all.product[i].groups;
  const bool many = all.gated != nullptr || groups > 2 * where.skinny_blocks;  // more than one wave of blocks of two groups
  if (all.m <= 8) {
    many ? start<4, 1>(where, all) : start<2, 1>(where, all);
  } else {
    many ? start<4, 2>(where, all) : start<2, 2>(where, all);
  }
}

}  // namespace paceline::ops::cuda
