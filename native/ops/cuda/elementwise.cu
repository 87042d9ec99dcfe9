#include "ops/cuda/elementwise.h"

#include <algorithm>

#include "base/error.h"

namespace paceline::ops::cuda {
namespace {

constexpr int kMaxRanks = 16;

__device__ float element(const void* table, DType dtype, size_t index) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(table)[index];
    case DType::kF16: {
      float value;
      asm("{.reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "h"(static_cast<const uint16_t*>(table)[index]));
      return value;
    }
    default:
      return widen(static_cast<const uint16_t*>(table)[index]);
  }
}

__global__ void embed(const int32_t* token, const void* table, DType dtype, int width, float* hidden) {
  let_next_start();
  wait_for_inputs();
  const size_t row = blockIdx.x, from = static_cast<size_t>(token[row]) * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) hidden[row * width + i] = element(table, dtype, from + i);
}

__device__ __forceinline__ float4 operator+(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

template <class T>
__device__ __forceinline__ T sum_of(const Addend& addend, size_t index) {  // T: float, or float4 where all is aligned for it
  constexpr int kRunsAtOnce = 4;
  T part[kRunsAtOnce] = {};
#pragma unroll
  for (int r = 0; r < kRunsAtOnce; ++r) {
    if (r < addend.runs) part[r] = *reinterpret_cast<const T*>(addend.first + r * addend.stride + index);
  }
  T sum = part[0];
#pragma unroll
  for (int r = 1; r < kRunsAtOnce; ++r) {
    if (r < addend.runs) sum = sum + part[r];
  }
  return sum;
}

constexpr int kNormThreads = 512;
constexpr int kNormQuads = 4;  // of a thread: rows of up to 8,192 floats stay in registers

// The sum of squares runs over fixed strides of 512 threads, then a fixed tree.
__global__ void __launch_bounds__(kNormThreads) rms_norm_quads(const __grid_constant__ RmsNorm norm) {
  __shared__ float scratch[32];
  let_next_start();
  // Kept out of registers, so that the block fits beside one of the product before it.
  for (int i = static_cast<int>(threadIdx.x) * 32; i < norm.width; i += kNormThreads * 32) prefetch(norm.weight + i);
  float4 kept[kNormQuads];
  wait_for_inputs();
  const size_t first = static_cast<size_t>(blockIdx.x) * norm.width;
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kNormQuads; ++j) {
    const int i = (static_cast<int>(threadIdx.x) + j * kNormThreads) * 4;
    if (i >= norm.width) break;
    float4 value = *reinterpret_cast<const float4*>(norm.x + first + i);
    if (norm.partial.first != nullptr) {
      value = value + sum_of<float4>(norm.partial, first + i);
      *reinterpret_cast<float4*>(norm.x + first + i) = value;
    }
    kept[j] = value;
    squares = fmaf(value.x, value.x, fmaf(value.y, value.y, fmaf(value.z, value.z, fmaf(value.w, value.w, squares))));
  }
  const float factor = rsqrtf(block_sum(squares, scratch) / static_cast<float>(norm.width) + norm.eps);
#pragma unroll
  for (int j = 0; j < kNormQuads; ++j) {
    const int i = (static_cast<int>(threadIdx.x) + j * kNormThreads) * 4;
    if (i >= norm.width) break;
    const float4 weight = *reinterpret_cast<const float4*>(norm.weight + i);
    const float4 value = kept[j];
    const uint32_t low = narrow(value.x * factor * weight.x) | static_cast<uint32_t>(narrow(value.y * factor * weight.y)) << 16;
    const uint32_t high = narrow(value.z * factor * weight.z) | static_cast<uint32_t>(narrow(value.w * factor * weight.w)) << 16;
    *reinterpret_cast<uint2*>(norm.out + first + i) = make_uint2(low, high);
  }
}

// Rows of any width.
__global__ void __launch_bounds__(kNormThreads) rms_norm(const __grid_constant__ RmsNorm norm) {
  __shared__ float scratch[32];
  let_next_start();
  wait_for_inputs();
  const size_t first = static_cast<size_t>(blockIdx.x) * norm.width;
  float squares = 0;
  for (int i = threadIdx.x; i < norm.width; i += blockDim.x) {
    float value = norm.x[first + i];
    if (norm.partial.first != nullptr) {
      value += sum_of<float>(norm.partial, first + i);
      norm.x[first + i] = value;
    }
    squares = fmaf(value, value, squares);
  }
  const float factor = rsqrtf(block_sum(squares, scratch) / static_cast<float>(norm.width) + norm.eps);
  for (int i = threadIdx.x; i < norm.width; i += blockDim.x)
    norm.out[first + i] = narrow(norm.x[first + i] * factor * norm.weight[i]);
}

__global__ void swiglu(const __grid_constant__ Addend gate_up, int width, uint16_t* out) {
  let_next_start();
  wait_for_inputs();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= width) return;
  const size_t row = static_cast<size_t>(blockIdx.y) * 2 * width;
  const float gate = sum_of<float>(gate_up, row + i), up = sum_of<float>(gate_up, row + width + i);
  out[static_cast<size_t>(blockIdx.y) * width + i] = narrow(silu(gate) * up);
}

__global__ void gather(const float* in, const int32_t* index, int width, float* out) {
  let_next_start();
  wait_for_inputs();
  const float* row = in + static_cast<size_t>(index[blockIdx.x]) * width;
  for (int i = threadIdx.x; i < width; i += blockDim.x) out[static_cast<size_t>(blockIdx.x) * width + i] = row[i];
}

struct Partials {
  const float* rank[kMaxRanks];
  int ranks;
};

__global__ void add(const __grid_constant__ Partials partials, int64_t count, float* target) {
  let_next_start();
  wait_for_inputs();
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i >= count) return;
  float sum = target[i];  // the target first, then rank after rank
  for (int r = 0; r < partials.ranks; ++r) sum += partials.rank[r][i];
  target[i] = sum;
}

__global__ void add_runs(const __grid_constant__ Addend addend, int64_t count, float* target) {
  let_next_start();
  wait_for_inputs();
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < count) target[i] += sum_of<float>(addend, static_cast<size_t>(i));
}

__global__ void collect(const __grid_constant__ Collection all) {
  let_next_start();
  wait_for_inputs();
  const Collection::Output& output = all.output[blockIdx.z];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const size_t row = blockIdx.y;
  if (i < output.width) output.y[row * output.ld + i] = sum_of<float>(all.runs, row * all.ld_runs + output.offset + i);
}

__global__ void pad(const uint16_t* x, int cols, int lead, int ld, uint16_t* out) {
  let_next_start();
  wait_for_inputs();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= ld) return;
  const bool real = i >= lead && i < lead + cols;
  out[static_cast<size_t>(blockIdx.y) * ld + i] = real ? x[static_cast<size_t>(blockIdx.y) * cols + i - lead] : uint16_t{0};
}

__device__ void keep_best(float& value, int& index, float other, int other_index) {
  if (other > value || (other == value && other_index < index)) value = other, index = other_index;
}

__device__ void block_best(float& value, int& index) {  // known to thread 0 afterwards
  __shared__ float values[32];
  __shared__ int indices[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    keep_best(value, index, __shfl_xor_sync(0xffffffffu, value, offset), __shfl_xor_sync(0xffffffffu, index, offset));
  }
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value, indices[threadIdx.x / 32] = index;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned i = 1; i < blockDim.x / 32; ++i) keep_best(value, index, values[i], indices[i]);
  }
}

__global__ void argmax_parts(const float* x, int width, int ld, ArgmaxScratch scratch) {
  let_next_start();
  wait_for_inputs();
  const float* row = x + static_cast<size_t>(blockIdx.y) * ld;
  const int begin = static_cast<int>(static_cast<int64_t>(width) * blockIdx.x / kArgmaxParts);
  const int end = static_cast<int>(static_cast<int64_t>(width) * (blockIdx.x + 1) / kArgmaxParts);
  float value = -INFINITY;
  int index = INT32_MAX;
  for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += static_cast<int>(blockDim.x))
    keep_best(value, index, row[i], i);
  block_best(value, index);
  if (threadIdx.x == 0) {
    scratch.value[blockIdx.y * kArgmaxParts + blockIdx.x] = value;
    scratch.index[blockIdx.y * kArgmaxParts + blockIdx.x] = index;
  }
}

__global__ void argmax_whole(ArgmaxScratch scratch, float* best, int32_t* index_of_best) {
  let_next_start();
  wait_for_inputs();
  float value = scratch.value[blockIdx.x * kArgmaxParts + threadIdx.x];
  int index = scratch.index[blockIdx.x * kArgmaxParts + threadIdx.x];
  block_best(value, index);
  if (threadIdx.x == 0) {
    best[blockIdx.x] = value;
    index_of_best[blockIdx.x] = index == INT32_MAX ? 0 : index;
  }
}

unsigned blocks_of(int64_t count, int threads) { return static_cast<unsigned>((count + threads - 1) / threads); }

}  // namespace

int compiled_architecture() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, embed), "cudaFuncGetAttributes");
  return attributes.ptxVersion;
}

void run_embed(const Launch& where, const int32_t* token, int rows, const void* table, DType dtype, int width, float* hidden) {
  launch(where, embed, dim3(static_cast<unsigned>(rows)), dim3(256), 0, token, table, dtype, width, hidden);
}

void run_rms_norm(const Launch& where, const RmsNorm& norm, int rows) {
  const bool quads = norm.width % 4 == 0 && norm.width <= kNormThreads * kNormQuads * 4;
  launch(where, quads ? rms_norm_quads : rms_norm, dim3(static_cast<unsigned>(rows)), dim3(kNormThreads), 0, norm);
}

void run_swiglu(const Launch& where, const Addend& gate_up, int rows, int width, uint16_t* out) {
  launch(where, swiglu, dim3(blocks_of(width, 256), static_cast<unsigned>(rows)), dim3(256), 0, gate_up, width, out);
}

void run_gather(const Launch& where, const float* in, const int32_t* index, int count, int width, float* out) {
  launch(where, gather, dim3(static_cast<unsigned>(count)), dim3(256), 0, in, index, width, out);
}

void run_add(const Launch& where, std::span<const float* const> partials, int64_t count, float* target) {
  Partials all{};
  paceline::check(partials.size() <= std::size(all.rank), "a sum over ", partials.size(), " ranks, at most ", std::size(all.rank),
                  " are supported");
  for (const float* partial : partials) all.rank[all.ranks++] = partial;
  launch(where, add, dim3(blocks_of(count, 256)), dim3(256), 0, all, count, target);
}

void run_add(const Launch& where, const Addend& addend, int64_t count, float* target) {
  launch(where, add_runs, dim3(blocks_of(count, 256)), dim3(256), 0, addend, count, target);
}

void run_collect(const Launch& where, const Collection& collection) {
  int width = 0;
  for (int i = 0; i < collection.count; ++i) width = std::max(width, collection.output[i].width);
  const dim3 grid(blocks_of(width, 256), static_cast<unsigned>(collection.rows), static_cast<unsigned>(collection.count));
  launch(where, collect, grid, dim3(256), 0, collection);
}

void run_pad(const Launch& where, const uint16_t* x, int rows, int cols, int lead, int ld, uint16_t* out) {
  launch(where, pad, dim3(blocks_of(ld, 256), static_cast<unsigned>(rows)), dim3(256), 0, x, cols, lead, ld, out);
}

void run_argmax(const Launch& where, const float* x, int rows, int width, int ld, const ArgmaxScratch& scratch, float* value,
                int32_t* index) {
  launch(where, argmax_parts, dim3(kArgmaxParts, static_cast<unsigned>(rows)), dim3(256), 0, x, width, ld, scratch);
  launch(where, argmax_whole, dim3(static_cast<unsigned>(rows)), dim3(kArgmaxParts), 0, scratch, value, index);
}

}  // namespace paceline::ops::cuda
