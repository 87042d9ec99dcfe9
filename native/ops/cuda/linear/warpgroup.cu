// FP8 products of more than 16 rows on compute capability 9.0a, by products of whole warpgroups. A block of two warpgroups
// computes 128 output rows for up to 128 tokens, a warp of its own keeps a ring of weights and activations filled. The order of
// sums is the skinny kernel's: a warp multiplies the same fragments, and the tensor cores add 16 columns alike in either
// instruction.
//
// Activations are arranged first, so that a stage of them is one copy: [token tile][block of K][16 bytes of K: 16][token] in
// units of 16 bytes. Unit 4 j + u of a chunk j of 32 columns takes columns 8 q + 2 u and 8 q + 2 u + 1, q = 0 .. 3: those that
// the packed weights (layout.h) have at the same place.
#include "ops/cuda/linear/fragments.cuh"
#include "ops/cuda/linear/hopper.cuh"
#include "ops/cuda/linear/kernels.h"

namespace paceline::ops::cuda {
namespace {

constexpr int kTeams = 2;  // warpgroups that multiply
constexpr int kWarps = 4 * kTeams;
constexpr int kThreads = kWarps * 32 + 128;
constexpr int kBlockBytes = 2048;  // weights of a group and a block of K
constexpr int kWeights = kWarps * kBlockBytes;
constexpr int kArranged = 32;  // tokens of a block of `arrange`

template <int kTokens, bool kAlone>
struct Shape {
  static constexpr int kPasses = kTokens == 128 ? 2 : 1;  // over the tokens of a block, to bound the registers
  static constexpr int kTiles = kTokens / kPasses / 8;
  static constexpr int kInputs = kTokens * kBlock * 2;
  static constexpr int kStage = kInputs + kWeights;
  static constexpr bool kSumsInMemory = kPasses > 1 && !kAlone;
  static constexpr int kSums = kSumsInMemory ? kWarps * 32 * kPasses * kTiles * 4 * 4 : 0;
  static constexpr int kStages = kTokens == 32 ? 8 : kTokens == 64 ? 6 : kAlone ? 4 : 3;
  static constexpr int kBytes = kSums + kStages * kStage;
};

// Tokens beyond `m` become zeros.
__global__ void __launch_bounds__(kArranged * 4) arrange(const uint16_t* x, int ld, int m, int tokens, uint8_t* out) {
  let_next_start();
  const int block = static_cast<int>(blockIdx.x), chunk = static_cast<int>(threadIdx.x) / 8 % 4;
  const int token = static_cast<int>(blockIdx.y) * kArranged + static_cast<int>(threadIdx.x) / 32 * 8 + threadIdx.x % 8;
  uint4 q[4] = {};
  wait_for_inputs();
  if (token < m) {
    const auto* from = reinterpret_cast<const uint4*>(x + static_cast<size_t>(token) * ld + block * kBlock + chunk * 32);
#pragma unroll
    for (int i = 0; i < 4; ++i) q[i] = from[i];
  }
  const size_t tile = (static_cast<size_t>(token / tokens) * gridDim.x + block) * static_cast<size_t>(tokens) * kBlock * 2;
  auto* to = reinterpret_cast<uint4*>(out + tile) + chunk * 4 * tokens + token % tokens;
  to[0] = make_uint4(q[0].x, q[1].x, q[2].x, q[3].x);
  to[tokens] = make_uint4(q[0].y, q[1].y, q[2].y, q[3].y);
  to[2 * tokens] = make_uint4(q[0].z, q[1].z, q[2].z, q[3].z);
  to[3 * tokens] = make_uint4(q[0].w, q[1].w, q[2].w, q[3].w);
}

#if PACELINE_HOPPER

// Of a thread that copies, and of one that multiplies: together what a multiprocessor has for so many threads.
constexpr int kFewRegisters = 24;
constexpr int kManyRegisters = 240;

template <int kStages>
struct Ring {
  uint64_t full[kStages];
  uint64_t empty[kStages];
};

// What the copying warp brings, block of K after block of K. Weights depend on no earlier kernel.
template <class S>
__device__ void feed(const Products& all, const Product& p, const uint8_t* inputs, int first_group, int begin, int end,
                     Ring<S::kStages>& ring, uint8_t* stages) {
  const int lane = static_cast<int>(threadIdx.x) % 32, count = end - begin, ahead = min(count, S::kStages);
  const int groups = min(kWarps, p.groups - first_group);
  const uint8_t* source = p.data + (static_cast<size_t>(first_group + lane) * all.blocks + begin) * kBlockBytes;
  inputs += (static_cast<size_t>(blockIdx.x) * all.blocks + begin) * S::kInputs;
  const auto bring_weights = [&](int i) {
    const int stage = i % S::kStages;
    if (lane == 0) barrier_expect(ring.full[stage], S::kInputs + groups * kBlockBytes);
    __syncwarp();
    if (lane < groups)
      copy_bulk(stages + stage * S::kStage + S::kInputs + lane * kBlockBytes, source + static_cast<size_t>(i) * kBlockBytes,
                kBlockBytes, ring.full[stage]);
  };
  const auto bring_inputs = [&](int i) {
    const int stage = i % S::kStages;
    if (lane == 0)
      copy_bulk(stages + stage * S::kStage, inputs + static_cast<size_t>(i) * S::kInputs, S::kInputs, ring.full[stage]);
  };
  for (int i = 0; i < ahead; ++i) bring_weights(i);
  wait_for_inputs();
  for (int i = 0; i < ahead; ++i) bring_inputs(i);
  for (int i = ahead; i < count; ++i) {
    barrier_wait(ring.empty[i % S::kStages], (i / S::kStages - 1) & 1);
    bring_weights(i);
    bring_inputs(i);
  }
}

template <class S>
using Sum = float[S::kPasses][S::kTiles][4];

// One block of K. acc = fma(scale, block sum, acc).
template <class S>
__device__ __forceinline__ void multiply(const uint8_t* stage, RowScales scale, int warp, int lane, Sum<S>& acc) {
  constexpr int kTokens = S::kPasses * S::kTiles * 8;
  Chunk a[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) a[j] = load_chunk<true>(stage + S::kInputs + warp * kBlockBytes, j, lane);
#pragma unroll
  for (int pass = 0; pass < S::kPasses; ++pass) {
    float c[S::kTiles][4], d[S::kTiles][4];
    const uint64_t b = describe(shared_address(stage) + pass * S::kTiles * 128, kTokens * 16, 128);
    group_fence();
    group_mma<false>(c, a[0].first, b);
    group_mma<false>(d, a[0].second, b + 2 * kTokens);
#pragma unroll
    for (int j = 1; j < 4; ++j) {
      group_mma<true>(c, a[j].first, b + j * 4 * kTokens);
      group_mma<true>(d, a[j].second, b + (j * 4 + 2) * kTokens);
    }
    group_commit();
    group_wait();
    pin(c), pin(d);
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) add_block(acc[pass][t], c[t], d[t], scale);
  }
}

template <class S>
__device__ __forceinline__ void store(const Sum<S>& sum, int group, int m, const Product& p, float* y) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int tile = 0; tile < S::kPasses * S::kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = (static_cast<int>(blockIdx.x) * S::kPasses * S::kTiles + tile) * 8 + (lane % 4) * 2 + i % 2;
      const int n = group * kGroup + lane / 4 + (i / 2) * 8;
      if (token < m && n < p.rows) y[static_cast<size_t>(token) * p.ld_y + n] = sum[tile / S::kTiles][tile % S::kTiles][i];
    }
  }
}

// The sum of the runs so far, in registers or, each thread its own, in shared memory.
template <class S>
struct Total {
  static constexpr int kValues = S::kPasses * S::kTiles * 4;
  float kept[S::kSumsInMemory ? 1 : kValues];
  float* memory;

  __device__ __forceinline__ float& at(int i) {
    if constexpr (S::kSumsInMemory) return memory[i * kWarps * 32];
    return kept[i];
  }

  // acc becomes the sum of all runs so far.
  __device__ __forceinline__ void add(Sum<S>& acc, bool first) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      float& value = acc[i / 4 / S::kTiles][i / 4 % S::kTiles][i % 4];
      value = (first ? 0.0f : at(i)) + value;
      at(i) = value;
    }
  }
};

template <class S, bool kAlone>
__device__ void consume(const Products& all, const Product& p, int group, int first_run, int last_run, Ring<S::kStages>& ring,
                        uint8_t* stages, float* sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const float* scales = p.scale + static_cast<size_t>(group < p.groups ? group : 0) * all.blocks * 2;
  Total<S> total;
  total.memory = sums + threadIdx.x;
  int stage = 0, parity = 0, block = split_begin(all.blocks, first_run);
  RowScales next = pick_scales(scales + block * 2, p.boundary, lane);
#pragma unroll 1
  for (int run = first_run; run < last_run; ++run) {
    Sum<S> acc = {};
    const int end = split_begin(all.blocks, run + 1);
#pragma unroll 1
    for (; block < end; ++block) {
      const RowScales scale = next;
      next = pick_scales(scales + min(block + 1, all.blocks - 1) * 2, p.boundary, lane);
      barrier_wait(ring.full[stage], parity);
      multiply<S>(stages + stage * S::kStage, scale, warp, lane, acc);
      barrier_arrive(ring.empty[stage]);  // each lane for its own reads: the race checker takes no lane's word for another
      if (++stage == S::kStages) stage = 0, parity ^= 1;
    }
    if constexpr (!kAlone) total.add(acc, run == first_run);
    if (kAlone || run + 1 == last_run) store<S>(acc, group, all.m, p, p.y + (kAlone ? run * all.run_stride : 0));
  }
}

#endif

template <int kTokens, bool kAlone>
__global__ void __launch_bounds__(kThreads, 1) warpgroups(const __grid_constant__ Products all, const uint8_t* inputs) {
#if PACELINE_HOPPER
  using S = Shape<kTokens, kAlone>;
  __shared__ Ring<S::kStages> ring;  // allow() looks for it
  extern __shared__ __align__(128) uint8_t shared[];
  let_next_start();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) barrier_init(ring.full[i], 1), barrier_init(ring.empty[i], kWarps * 32);
    fence_barriers();
  }
  __syncthreads();
  int part = 0;
  while (part + 1 < all.count && static_cast<int>(blockIdx.y) >= all.product[part + 1].tile_begin) ++part;
  const Product& p = all.product[part];
  const int first_group = (static_cast<int>(blockIdx.y) - p.tile_begin) * kWarps;
  const int first_run = kAlone ? static_cast<int>(blockIdx.z) : 0, last_run = kAlone ? first_run + 1 : kSplits;
  uint8_t* stages = shared + S::kSums;
  if (warp >= kWarps) {
    limit_registers<kFewRegisters>();
    if (warp > kWarps) return;  // there to complete the warpgroup
    feed<S>(all, p, inputs, first_group, split_begin(all.blocks, first_run), split_begin(all.blocks, last_run), ring, stages);
  } else {
    raise_registers<kManyRegisters>();
    wait_for_inputs();
    consume<S, kAlone>(all, p, first_group + warp, first_run, last_run, ring, stages, reinterpret_cast<float*>(shared));
  }
#endif
}

template <int kTokens, bool kAlone>
void start(const Launch& where, const Products& all, int tiles, const uint8_t* inputs) {
  const dim3 grid(static_cast<unsigned>((all.m + kTokens - 1) / kTokens), static_cast<unsigned>(tiles),
                  kAlone ? static_cast<unsigned>(kSplits) : 1u);
  launch(where, warpgroups<kTokens, kAlone>, grid, dim3(kThreads), size_t{Shape<kTokens, kAlone>::kBytes}, all, inputs);
}

template <int kTokens>
void start(const Launch& where, const Products& all, int tiles, const uint8_t* inputs) {
  all.run_stride != 0 ? start<kTokens, true>(where, all, tiles, inputs) : start<kTokens, false>(where, all, tiles, inputs);
}

// Whether the code that this device runs was compiled for 9.0a, and has the room it needs.
template <int kTokens, bool kAlone>
bool allow(int shared_optin) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, warpgroups<kTokens, kAlone>), "cudaFuncGetAttributes");
  constexpr int kBytes = Shape<kTokens, kAlone>::kBytes;
  if (attributes.sharedSizeBytes == 0 || kBytes + static_cast<int>(attributes.sharedSizeBytes) > shared_optin) return false;
  check(cudaFuncSetAttribute(warpgroups<kTokens, kAlone>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "cudaFuncSetAttribute(warpgroups)");
  return true;
}

int tokens_at_once(int m) { return m <= 32 ? 32 : m <= 64 ? 64 : 128; }

}  // namespace

bool prepare_warpgroups(int shared_optin) {
  return allow<32, false>(shared_optin) && allow<32, true>(shared_optin) && allow<64, false>(shared_optin) &&
         allow<64, true>(shared_optin) && allow<128, false>(shared_optin) && allow<128, true>(shared_optin);
}

size_t arranged_bytes(const Products& all) {
  const int tokens = tokens_at_once(all.m);
  return static_cast<size_t>((all.m + tokens - 1) / tokens * tokens) * all.blocks * kBlock * 2;
}

void run_warpgroups(const Launch& where, Products all, uint8_t* arranged) {
  const int tokens = tokens_at_once(all.m);
  const dim3 grid(static_cast<unsigned>(all.blocks), static_cast<unsigned>((all.m + tokens - 1) / tokens * tokens / kArranged));
  launch(where, arrange, grid, dim3(kArranged * 4), 0, all.x, all.ld_x, all.m, tokens, arranged);
  int tiles = 0;
  for (int i = 0; i < all.count; ++i) {
    all.product[i].tile_begin = tiles;
    tiles += (all.product[i].groups + kWarps - 1) / kWarps;
  }
  if (tokens == 32) return start<32>(where, all, tiles, arranged);
  if (tokens == 64) return start<64>(where, all, tiles, arranged);
  start<128>(where, all, tiles, arranged);
}

}  // namespace paceline::ops::cuda
