// Products of 1 to 16 rows: the weights stream once, at the memory's speed, whatever the width.
//
// One block a multiprocessor, which walks through its tiles without a pause: each warp takes one of the runs of K of a tile and
// has a ring of its own in shared memory that it fills with asynchronous copies, past the end of a tile into the next one. The
// ring starts to fill before the previous kernel has ended: weights depend on nothing. Activations of up to 8 rows wait in shared
// memory where they fit.
//
// Two ways to deal out the work:
//   whole   four warps, a set, share a tile (16 output rows, or 16 of the gate and 16 of the up part); their runs meet in shared
//           memory and are added there, in ascending order
//   split   for products of few output rows: a warp's tile is one run of 16 output rows, all warps of a block have the same run,
//           and the runs are left in memory, for whoever reads the product to add them
#include <algorithm>

#include "ops/cuda/linear/fragments.cuh"
#include "ops/cuda/linear/kernels.h"

namespace paceline::ops::cuda {
namespace {

constexpr int kHalf = 2048;                  // of a stage: an FP8 block, or half a BF16 one
constexpr int kStageBytes = 2 * kHalf + 32;  // and room for the scales of two blocks
constexpr int kWholeSets = 2;
constexpr int kSplitWarps = 10;
constexpr int kRowGap = 64;  // bytes between two rows of activations in shared memory, against bank conflicts

struct Plan {  // of one launch
  int tiles;
  int warps;
  int x_bytes;  // of activations in shared memory; 0: they are read from where they are
};

// What a stage holds. FP8: two neighbouring blocks of K of one group, or one block of K of a gate and of an up group; BF16: one
// block of one group.
enum class Kind { kTwoBlocks, kTwoGroups, kWide };

struct Tile {
  const Product* product;
  const uint8_t* data[2];  // the run's first block in each half of a stage
  const float* scale[2];
  int group;
  int steps;
  Kind kind;
};

__device__ __forceinline__ Tile open_tile(const Products& all, int index, int begin, int end) {
  int i = 0;
  if (all.gated == nullptr) {
    while (i + 1 < all.count && index >= all.product[i + 1].tile_begin) ++i;
  }
  const Product& p = all.product[i];
  Tile tile;
  tile.product = &p;
  tile.group = index - p.tile_begin;
  const size_t at = static_cast<size_t>(tile.group) * all.blocks + begin;
  const int blocks = end - begin;
  if (p.scale == nullptr) {
    tile.kind = Kind::kWide, tile.steps = blocks;
    tile.data[0] = p.data + at * 2 * kHalf, tile.data[1] = tile.data[0] + kHalf;
    tile.scale[0] = tile.scale[1] = nullptr;
  } else if (all.gated != nullptr) {
    tile.kind = Kind::kTwoGroups, tile.steps = blocks;
    tile.data[0] = p.data + at * kHalf, tile.data[1] = all.product[1].data + at * kHalf;
    tile.scale[0] = p.scale + at * 2, tile.scale[1] = all.product[1].scale + at * 2;
  } else {
    tile.kind = Kind::kTwoBlocks, tile.steps = (blocks + 1) / 2;
    tile.data[0] = p.data + at * kHalf, tile.data[1] = tile.data[0] + kHalf;
    tile.scale[0] = p.scale + at * 2, tile.scale[1] = tile.scale[0] + 2;
  }
  return tile;
}

// A warp's weights: its tiles `first`, `first + stride`, ... over the blocks [begin, end) of K, through a ring of stages.
template <int kStages>
class Stream {
 public:
  __device__ Stream(const Products& all, int first, int stride, int tiles, int begin, int end, uint8_t* ring)
      : all_(all), ring_(ring), lane_(threadIdx.x % 32), index_(first), stride_(stride), tiles_(tiles), begin_(begin), end_(end) {
    if (index_ < tiles_) tile_ = open_tile(all_, index_, begin_, end_);
    for (int i = 0; i < kStages - 1; ++i) fetch();
  }

  __device__ __forceinline__ void fetch() {
    while (index_ < tiles_ && step_ == tile_.steps) {  // on to the next tile
      index_ += stride_, step_ = 0;
      if (index_ < tiles_) tile_ = open_tile(all_, index_, begin_, end_);
    }
    if (index_ < tiles_) {
      uint8_t* stage = ring_ + next_ * kStageBytes;
      const size_t blocks = tile_.kind == Kind::kTwoGroups ? step_ : 2 * step_;  // of 2 KB behind the first
      const bool second = tile_.kind != Kind::kTwoBlocks || begin_ + 2 * step_ + 1 < end_;
      const uint8_t* upper = tile_.data[0] + blocks * kHalf + lane_ * 16;
      const uint8_t* lower = (second ? tile_.data[1] + blocks * kHalf : tile_.data[0]) + lane_ * 16;
#pragma unroll
      for (int i = 0; i < kHalf; i += 512) copy_async(stage + lane_ * 16 + i, upper + i);
#pragma unroll
      for (int i = 0; i < kHalf; i += 512) copy_async(stage + kHalf + lane_ * 16 + i, lower + i, second);
      if (tile_.kind != Kind::kWide && lane_ < 2 && (lane_ == 0 || second))
        copy_scales_async(stage + 2 * kHalf + lane_ * 8, (lane_ == 0 ? tile_.scale[0] : tile_.scale[1]) + blocks * 2);
      next_ = next_ + 1 == kStages ? 0 : next_ + 1;
      ++step_;
    }
    commit_copies();
  }

  // The oldest stage, once it is there; the one before it is filled again.
  __device__ __forceinline__ const uint8_t* take() {
    wait_copies<kStages - 2>();
    __syncwarp();
    fetch();
    const uint8_t* stage = ring_ + first_ * kStageBytes;
    first_ = first_ + 1 == kStages ? 0 : first_ + 1;
    return stage;
  }

 private:
  const Products& all_;
  uint8_t* ring_;
  int lane_;
  int index_, stride_, tiles_, begin_, end_;
  Tile tile_;
  int step_ = 0;
  int next_ = 0;
  int first_ = 0;
};

// Where a lane finds its activations: 16 bytes a chunk of 32 columns, for each 8 tokens.
template <int kTiles>
struct Inputs {
  const uint8_t* row[kTiles];  // at the run's first column; null for tokens that are not there

  __device__ __forceinline__ uint4 load(int tile, int block, int chunk) const {
    if (row[tile] == nullptr) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4*>(row[tile] + block * kBlock * 2 + chunk * 64);
  }
};

// One block of one group: acc = fma(scale, block sum, acc).
template <bool kFp8, int kTiles>
__device__ __forceinline__ void multiply(const uint8_t* weights, const uint4 (&x)[kTiles][4], const float* scales, int boundary,
                                         int lane, float (&acc)[kTiles][4]) {
  float c[kTiles][4] = {}, d[kTiles][4] = {};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const Chunk a = load_chunk<kFp8>(weights, j, lane);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      mma(c[t], a.first, x[t][j].x, x[t][j].y);
      mma(d[t], a.second, x[t][j].z, x[t][j].w);
    }
  }
  RowScales scale = {1.0f, 1.0f};
  if constexpr (kFp8) scale = pick_scales(scales, boundary, lane);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) add_block(acc[t], c[t], d[t], scale);
}

template <int kTiles>
__device__ __forceinline__ void load_inputs(const Inputs<kTiles>& inputs, int block, uint4 (&x)[kTiles][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int j = 0; j < 4; ++j) x[t][j] = inputs.load(t, block, j);
  }
}

template <int kTiles, int kStages>
__device__ __forceinline__ void run_tile(const Tile& tile, int blocks, Stream<kStages>& stream, const Inputs<kTiles>& inputs,
                                         int lane, float (&acc)[2][kTiles][4]) {
  const int boundary = tile.product->boundary;
  uint4 x[kTiles][4];
  if (tile.kind == Kind::kTwoBlocks) {
    for (int block = 0; block < blocks; block += 2) {
      load_inputs(inputs, block, x);
      const uint8_t* stage = stream.take();
      const auto* scales = reinterpret_cast<const float*>(stage + 2 * kHalf);
      multiply<true, kTiles>(stage, x, scales, boundary, lane, acc[0]);
      if (block + 1 == blocks) break;
      load_inputs(inputs, block + 1, x);
      multiply<true, kTiles>(stage + kHalf, x, scales + 2, boundary, lane, acc[0]);
    }
  } else if (tile.kind == Kind::kTwoGroups) {
    for (int block = 0; block < blocks; ++block) {
      load_inputs(inputs, block, x);
      const uint8_t* stage = stream.take();
      const auto* scales = reinterpret_cast<const float*>(stage + 2 * kHalf);
      multiply<true, kTiles>(stage, x, scales, boundary, lane, acc[0]);
      multiply<true, kTiles>(stage + kHalf, x, scales + 2, boundary, lane, acc[1]);
    }
  } else {
    for (int block = 0; block < blocks; ++block) {
      load_inputs(inputs, block, x);
      multiply<false, kTiles>(stream.take(), x, nullptr, boundary, lane, acc[0]);
    }
  }
}

// The runs of a set's tile meet in shared memory, [run][part: 2][row: 16][token], and are added in ascending order.
template <int kTiles>
class Sums {
 public:
  static constexpr int kRow = kTiles == 1 ? 8 : 8 * kTiles + 1;  // one more against bank conflicts, where there is room
  static constexpr int kFloats = kSplits * 32 * kRow;

  __device__ explicit Sums(float* memory) : sums_(memory) {}

  __device__ __forceinline__ void store(const float (&acc)[2][kTiles][4], int run, int lane) {
#pragma unroll
    for (int g = 0; g < 2; ++g) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        float* at = sums_ + (run * 32 + g * 16 + lane / 4) * kRow + t * 8 + (lane % 4) * 2;
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
    for (int s = 0; s < kSplits; ++s) sum += sums_[(s * 32 + row) * kRow + token];
    return sum;
  }

 private:
  float* sums_;
};

template <int kTiles>
__device__ __forceinline__ void finish_whole(const Products& all, const Tile& tile, const Sums<kTiles>& sums, int thread) {
  const Product& p = *tile.product;
  const int first = tile.group * kGroup, rows = min(kGroup, p.rows - first);
  for (int i = thread; i < kGroup * all.m; i += kSplits * 32) {
    const int token = i / kGroup, row = i % kGroup;
    if (row >= rows) continue;
    const float sum = sums.at(row, token);
    if (all.gated != nullptr) {
      all.gated[static_cast<size_t>(token) * p.rows + first + row] = narrow(silu(sum) * sums.at(row + 16, token));
    } else {
      p.y[static_cast<size_t>(token) * p.ld_y + first + row] = sum;
    }
  }
}

template <int kTiles>
__device__ __forceinline__ void finish_split(const Products& all, const Tile& tile, int run, int lane,
                                             const float (&acc)[kTiles][4]) {
  const Product& p = *tile.product;
  float* y = p.y + run * all.run_stride;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = t * 8 + (lane % 4) * 2 + i % 2, n = tile.group * kGroup + lane / 4 + (i / 2) * 8;
      if (token < all.m && n < p.rows) y[static_cast<size_t>(token) * p.ld_y + n] = acc[t][i];
    }
  }
}

__device__ __forceinline__ void meet(int set) { asm volatile("bar.sync %0, %1;" ::"r"(set + 1), "n"(kSplits * 32) : "memory"); }

// Columns [begin, end) of all rows to shared memory. Rows are `stride` bytes apart there.
__device__ __forceinline__ void stage_inputs(const Products& all, int begin, int end, int stride, uint8_t* shared) {
  const int quads = (end - begin) * (kBlock / 8);
  for (int token = 0; token < all.m; ++token) {
    const uint16_t* from = all.x + static_cast<size_t>(token) * all.ld_x + begin * kBlock;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) copy_async(shared + token * stride + i * 16, from + i * 8);
  }
  commit_copies();
  wait_copies<0>();
  __syncthreads();
}

template <int kTiles, int kStages, bool kStaged>
__global__ void __launch_bounds__(kSplitWarps * 32, 1)
    skinny(const __grid_constant__ Products all, const __grid_constant__ Plan plan) {
  extern __shared__ __align__(128) uint8_t shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = static_cast<int>(gridDim.x);
  const bool split = all.run_stride != 0;
  const int set = warp / kSplits, run = split ? static_cast<int>(blockIdx.x) % kSplits : warp % kSplits;
  const int first =
      split ? static_cast<int>(blockIdx.x) / kSplits + warp * (blocks / kSplits) : static_cast<int>(blockIdx.x) + set * blocks;
  const int stride = split ? blocks / kSplits * plan.warps : blocks * (plan.warps / kSplits);
  const int begin = split_begin(all.blocks, run), end = split_begin(all.blocks, run + 1);
  uint8_t* rings = shared + plan.x_bytes;
  Stream<kStages> stream(all, first, stride, plan.tiles, begin, end, rings + warp * kStages * kStageBytes);
  let_next_start();
  wait_for_inputs();

  Inputs<kTiles> inputs;
  const int from = split ? begin : 0, to = split ? end : all.blocks;  // blocks that wait in shared memory
  const int row_bytes = (to - from) * kBlock * 2 + kRowGap;
  if constexpr (kStaged) stage_inputs(all, from, to, row_bytes, shared);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const int token = t * 8 + lane / 4;
    const uint8_t* row = kStaged
                             ? shared + token * row_bytes + (begin - from) * kBlock * 2
                             : reinterpret_cast<const uint8_t*>(all.x + static_cast<size_t>(token) * all.ld_x + begin * kBlock);
    inputs.row[t] = token < all.m ? row + (lane % 4) * 16 : nullptr;
  }
  auto* meeting = reinterpret_cast<float*>(rings + plan.warps * kStages * kStageBytes) + set * 2 * Sums<kTiles>::kFloats;
  int turn = 0;
  for (int index = first; index < plan.tiles; index += stride) {
    const Tile tile = open_tile(all, index, begin, end);
    float acc[2][kTiles][4] = {};
    run_tile<kTiles, kStages>(tile, end - begin, stream, inputs, lane, acc);
    if (split) {
      finish_split<kTiles>(all, tile, run, lane, acc[0]);
      continue;
    }
    Sums<kTiles> sums(meeting + turn * Sums<kTiles>::kFloats);
    turn ^= 1;
    sums.store(acc, run, lane);
    meet(set);
    finish_whole<kTiles>(all, tile, sums, static_cast<int>(threadIdx.x) % (kSplits * 32));
  }
  wait_copies<0>();
}

template <int kTiles, int kStages, bool kStaged>
bool start(const Launch& where, const Products& all, Plan plan) {
  const int columns = (all.run_stride != 0 ? (all.blocks + kSplits - 1) / kSplits : all.blocks) * kBlock;
  plan.x_bytes = kStaged ? (all.m * (columns * 2 + kRowGap) + 127) / 128 * 128 : 0;
  const int meeting =
      all.run_stride != 0 ? 0 : plan.warps / kSplits * 2 * Sums<kTiles>::kFloats * static_cast<int>(sizeof(float));
  const int bytes = plan.x_bytes + plan.warps * kStages * kStageBytes + meeting;
  if (bytes > where.shared_optin) return false;
  const int blocks = where.multiprocessors / kSplits * kSplits;
  launch(where, skinny<kTiles, kStages, kStaged>, dim3(static_cast<unsigned>(std::max(blocks, kSplits))),
         dim3(static_cast<unsigned>(plan.warps * 32)), static_cast<size_t>(bytes), all, plan);
  return true;
}

template <int kTiles, int kStages, bool kStaged>
void allow(int bytes) {
  check(cudaFuncSetAttribute(skinny<kTiles, kStages, kStaged>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "cudaFuncSetAttribute(skinny)");
}

}  // namespace

void prepare_skinny(int shared_optin) {
  allow<1, 3, true>(shared_optin);
  allow<1, 4, false>(shared_optin);
  allow<2, 4, true>(shared_optin);
  allow<2, 4, false>(shared_optin);
}

bool leaves_runs(const Launch& where, const Products& all) {
  if (all.gated != nullptr) return false;
  if (all.m > 8 && all.m <= kSkinnyRows) return true;  // a run's activations fit shared memory, all of them would not
  return all.count == 1 && all.product[0].groups <= 2 * kWholeSets * where.multiprocessors;
}

// Short rings up to 8 rows: in the room that they leave, blocks of the next kernels start beside these (27B shape, 8 rows: 9.70
// ms a step in place of 9.86 with five stages, though the products alone are 1 % slower). Fewer warps where shared memory is
// small.
void run_skinny(const Launch& where, Products all) {
  Plan plan{};
  for (int i = 0; i < (all.gated != nullptr ? 1 : all.count); ++i) {
    all.product[i].tile_begin = plan.tiles;
    plan.tiles += all.product[i].groups;
  }
  const auto with = [&](int warps) {
    plan.warps = warps;
    return plan;
  };
  const int most = all.run_stride != 0 ? kSplitWarps : kWholeSets * kSplits;
  if (all.m > 8) {
    if (start<2, 4, true>(where, all, with(most))) return;
    if (all.run_stride != 0 && start<2, 4, true>(where, all, with(kSplitWarps / 2))) return;
    if (start<2, 4, false>(where, all, with(most)) || start<2, 4, false>(where, all, with(kSplits))) return;
  } else {
    for (const int warps : {most, kSplits}) {
      if (start<1, 3, true>(where, all, with(warps)) || start<1, 4, false>(where, all, with(warps))) return;
    }
  }
  check(cudaErrorInvalidConfiguration, "a product of few rows: shared memory");
}

}  // namespace paceline::ops::cuda
