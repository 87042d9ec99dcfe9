// Products without tensor cores, for cards before bfloat16 units: one thread an output, same packed weights, same order of blocks
// and runs. Inside a block the columns are added one by one, so its bits differ from the tensor-core kernels', not from its own
// at any width.
#include "ops/cuda/linear/kernels.h"

namespace paceline::ops::cuda {
namespace {

__device__ float decode_fp8(uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const float magnitude =
      exponent == 0 ? ldexpf(static_cast<float>(mantissa), -9) : ldexpf(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

__device__ float weight_at(const Product& p, int blocks, int n, int block, int column) {
  const int row = n % kGroup, chunk = column / 32, lane = (row % 8) * 4 + (column % 32) / 8, upper = row / 8, byte = column % 8;
  const size_t index = static_cast<size_t>(n / kGroup) * blocks + block;
  if (p.scale != nullptr) {
    const auto* words = reinterpret_cast<const uint32_t*>(p.data);
    return decode_fp8(unpack_code(words[index * 512 + chunk * 128 + lane * 4 + upper * 2 + byte / 4], byte % 4));
  }
  return widen(reinterpret_cast<const uint16_t*>(p.data)[index * 2048 + chunk * 512 + upper * 256 + lane * 8 + byte]);
}

__global__ void simt(const __grid_constant__ Products all) {
  wait_for_inputs();
  const Product& p = all.product[blockIdx.z];
  const int n = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), token = static_cast<int>(blockIdx.y);
  if (n >= p.rows) return;
  const uint16_t* x = all.x + static_cast<size_t>(token) * all.ld_x;
  float total = 0;
  for (int split = 0; split < kSplits; ++split) {
    float acc = 0;
    for (int block = split_begin(all.blocks, split); block < split_begin(all.blocks, split + 1); ++block) {
      float sum = 0;
      for (int column = 0; column < kBlock; ++column)
        sum = fmaf(weight_at(p, all.blocks, n, block, column), widen(x[block * kBlock + column]), sum);
      const size_t pair = (static_cast<size_t>(n / kGroup) * all.blocks + block) * 2;
      const float scale = p.scale != nullptr ? p.scale[pair + (n % kGroup < p.boundary ? 0 : 1)] : 1.0f;
      acc = fmaf(scale, sum, acc);
    }
    total += acc;
  }
  p.y[static_cast<size_t>(token) * p.ld_y + n] = total;
}

}  // namespace

void run_simt(const Launch& where, Products all) {
  int rows = 0;
  for (int i = 0; i < all.count; ++i) rows = max(rows, all.product[i].rows);
  const dim3 grid(static_cast<unsigned>((rows + 127) / 128), static_cast<unsigned>(all.m), static_cast<unsigned>(all.count));
  launch(where, simt, grid, dim3(128), 0, all);
}

}  // namespace paceline::ops::cuda
