#include "ops/cuda/linear/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/cuda/random.h"

namespace paceline::ops::cuda {
namespace {

constexpr int64_t kStagingBytes = int64_t{32} << 20;

struct PackJob {
  const uint8_t* raw;  // [count, cols] of the checkpoint's type
  uint8_t* out;        // packed blocks of the group `first / 16` and on
  DType dtype;
  int count;  // rows in raw
  int cols;
  int lead;  // zero columns in front
  int blocks;
  uint32_t* bad;  // set where an FP8 code is NaN
};

__device__ uint16_t to_bf16(const PackJob& job, int64_t index) {
  switch (job.dtype) {
    case DType::kF32:
      return narrow(reinterpret_cast<const float*>(job.raw)[index]);
    case DType::kF16: {
      const uint16_t half = reinterpret_cast<const uint16_t*>(job.raw)[index];
      float value;
      asm("{.reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "h"(half));
      return narrow(value);
    }
    default:
      return reinterpret_cast<const uint16_t*>(job.raw)[index];
  }
}

// One thread a packed 16-byte unit. Rows and columns beyond the tensor become zeros.
__global__ void pack_units(PackJob job, int64_t units) {
  const int64_t unit = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (unit >= units) return;
  const bool fp8 = job.dtype == DType::kF8E4M3;
  const int per_block = fp8 ? 128 : 256;
  const int64_t index = unit / per_block;
  const int group = static_cast<int>(index / job.blocks), block = static_cast<int>(index % job.blocks),
            place = static_cast<int>(unit % per_block);
  const auto source = [&](int row, int column) -> int64_t {  // -1: padding
    const int r = group * kGroup + row, k = block * kBlock + column - job.lead;
    return r < job.count && k >= 0 && k < job.cols ? static_cast<int64_t>(r) * job.cols + k : -1;
  };
  if (fp8) {
    const int chunk = place / 32, lane = place % 32;
    uint32_t words[4];
    for (int w = 0; w < 4; ++w) {
      uint8_t codes[4];
      for (int i = 0; i < 4; ++i) {
        const int64_t at = source(lane / 4 + (w / 2) * 8, chunk * 32 + (lane % 4) * 8 + (w % 2) * 4 + i);
        codes[i] = at < 0 ? uint8_t{0} : job.raw[at];
        if ((codes[i] & 0x7fu) == 0x7fu) *job.bad = 1;
      }
      words[w] = pack_codes(codes);
    }
    memcpy(job.out + unit * 16, words, 16);
  } else {
    const int chunk = place / 64, upper = (place / 32) % 2, lane = place % 32;
    uint16_t words[8];
    for (int i = 0; i < 8; ++i) {
      const int64_t at = source(lane / 4 + upper * 8, chunk * 32 + (lane % 4) * 8 + i);
      words[i] = at < 0 ? uint16_t{0} : to_bf16(job, at);
    }
    memcpy(job.out + unit * 16, words, 16);
  }
}

// Where, within each group of 16 rows, the next row of the checkpoint's 128 x 128 scales begins; 16 where none does.
int boundary_of(const LinearPart& part) {
  const int into = static_cast<int>(part.row_offset % kGroup);
  return into == 0 ? kGroup : kGroup - into;
}

// [groups][blocks][2]: the scale of a group's first row and that of its last.
std::vector<float> pick_scales(const LinearPart& part, int groups, int blocks, int lead) {
  std::vector<float> scales;
  scales.reserve(static_cast<size_t>(groups) * static_cast<size_t>(blocks) * 2);
  const int64_t first_column = (part.col_offset - lead) / kBlock;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = part.row_offset + group * kGroup;
    const int64_t last = part.row_offset + std::min(part.rows, (group + 1) * kGroup) - 1;
    for (int block = 0; block < blocks; ++block) {
      scales.push_back(part.scale[first / kBlock * part.scale_cols + first_column + block]);
      scales.push_back(part.scale[last / kBlock * part.scale_cols + first_column + block]);
    }
  }
  return scales;
}

void check_part(const LinearPart& part, int64_t cols, size_t index, bool random) {
  using paceline::check;
  check<WeightError>(part.data != nullptr || random, "linear part ", index, " has no data");
  check<WeightError>(part.rows > 0 && part.cols > 0, "linear part ", index, " is ", part.rows, " x ", part.cols,
                     ", both must be positive");
  check<WeightError>(part.cols == cols, "linear part ", index, " has ", part.cols, " input features, part 0 has ", cols);
  check<WeightError>(part.row_stride >= part.cols * size_of(part.dtype), "linear part ", index, " has a row stride of ",
                     part.row_stride, " bytes for rows of ", part.cols * size_of(part.dtype));
  if (part.dtype != DType::kF8E4M3) return;
  check<WeightError>(part.scale != nullptr, "linear part ", index, " is FP8 and has no block scales");
  check<WeightError>(part.row_offset >= 0 && part.col_offset >= 0, "linear part ", index, " starts at a negative offset");
  const int64_t needed = (part.col_offset + part.cols + kBlock - 1) / kBlock;
  check<WeightError>(part.scale_cols >= needed, "linear part ", index, " has ", part.scale_cols, " scales a row, needs ", needed);
}

}  // namespace

void Packer::fill_rows(const LinearPart& part, int64_t first, int64_t count) {
  if (seed_) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(part.cols));
    return run_random(where_, part.dtype, *seed_, first * part.cols, count * part.cols, deviation, raw_->data());
  }
  const size_t row_bytes = static_cast<size_t>(part.cols) * size_of(part.dtype);
  const auto* from = static_cast<const uint8_t*>(part.data) + first * part.row_stride;
  auto* to = static_cast<uint8_t*>(pinned_->data());
  for (int64_t row = 0; row < count; ++row)
    std::memcpy(to + static_cast<size_t>(row) * row_bytes, from + row * part.row_stride, row_bytes);
  check(cudaMemcpyAsync(raw_->data(), to, row_bytes * static_cast<size_t>(count), cudaMemcpyHostToDevice, where_.stream),
        "copy of weights");
}

std::unique_ptr<DeviceBuffer> Packer::pack_part(const LinearPart& part, size_t index, const CudaLinear& linear) {
  const bool fp8 = part.dtype == DType::kF8E4M3;
  const int64_t groups = (part.rows + kGroup - 1) / kGroup;
  const size_t group_bytes = static_cast<size_t>(linear.blocks) * (fp8 ? 2048 : 4096);
  auto data = std::make_unique<DeviceBuffer>(static_cast<size_t>(groups) * group_bytes, where_.stream);
  const int64_t row_bytes = part.cols * size_of(part.dtype);
  const int64_t fitting = kStagingBytes / row_bytes / kGroup * kGroup;
  paceline::check<WeightError>(fitting > 0, "linear part ", index, ": rows of ", row_bytes,
                               " bytes do not fit the staging memory of ", kStagingBytes);
  check(cudaMemsetAsync(bad_->data(), 0, sizeof(uint32_t), where_.stream), "cudaMemsetAsync");
  for (int64_t first = 0; first < part.rows; first += fitting) {
    const int64_t count = std::min(fitting, part.rows - first);
    fill_rows(part, first, count);
    const int64_t units = (count + kGroup - 1) / kGroup * linear.blocks * (fp8 ? 128 : 256);
    const PackJob job = {static_cast<const uint8_t*>(raw_->data()),
                         static_cast<uint8_t*>(data->data()) + static_cast<size_t>(first / kGroup) * group_bytes,
                         part.dtype,
                         static_cast<int>(count),
                         static_cast<int>(part.cols),
                         linear.lead,
                         linear.blocks,
                         static_cast<uint32_t*>(bad_->data())};
    pack_units<<<static_cast<unsigned>((units + 255) / 256), 256, 0, where_.stream>>>(job, units);
    check(cudaGetLastError(), "pack_units");
    check(cudaStreamSynchronize(where_.stream), "packing of weights");  // the staging memory is used again
  }
  uint32_t bad = 0;
  check(cudaMemcpyAsync(&bad, bad_->data(), sizeof bad, cudaMemcpyDeviceToHost, where_.stream), "packing of weights");
  check(cudaStreamSynchronize(where_.stream), "packing of weights");
  paceline::check<WeightError>(bad == 0, "linear part ", index, " holds FP8 codes that are not numbers (0x7f or 0xff)");
  return data;
}

std::unique_ptr<DeviceBuffer> Packer::copy_scales(const LinearPart& part, const PackedPart& packed, const CudaLinear& linear) {
  const std::vector<float> scales = pick_scales(part, packed.groups, linear.blocks, linear.lead);
  auto buffer = std::make_unique<DeviceBuffer>(scales.size() * sizeof(float), where_.stream);
  check(cudaMemcpyAsync(buffer->data(), scales.data(), scales.size() * sizeof(float), cudaMemcpyHostToDevice, where_.stream),
        "copy of scales");
  check(cudaStreamSynchronize(where_.stream), "copy of scales");
  return buffer;
}

std::unique_ptr<Linear> Packer::pack(std::span<const LinearPart> parts, std::vector<std::unique_ptr<Buffer>>& owners) {
  paceline::check<WeightError>(!parts.empty() && parts.size() <= CudaLinear::kMaxParts, "a linear layer has ", parts.size(),
                               " parts, 1 to ", int{CudaLinear::kMaxParts}, " are supported");
  if (!pinned_) {
    pinned_ = std::make_unique<PinnedBuffer>(kStagingBytes);
    raw_ = std::make_unique<DeviceBuffer>(kStagingBytes, where_.stream);
    bad_ = std::make_unique<DeviceBuffer>(sizeof(uint32_t), where_.stream);
  }
  const bool random = matrix_seed_.has_value();
  auto linear = std::make_unique<CudaLinear>();
  linear->cols_ = parts[0].cols;
  for (const LinearPart& part : parts) {
    if (part.dtype == DType::kF8E4M3) linear->lead = static_cast<int>(part.col_offset % kBlock);
  }
  linear->blocks = static_cast<int>((linear->lead + linear->cols_ + kBlock - 1) / kBlock);
  for (size_t index = 0; index < parts.size(); ++index) {
    const LinearPart& part = parts[index];
    if (random) seed_ = *matrix_seed_ + index;
    check_part(part, linear->cols_, index, random);
    const bool fp8 = part.dtype == DType::kF8E4M3;
    paceline::check<WeightError>(!fp8 || part.col_offset % kBlock == linear->lead, "linear part ", index, " starts at column ",
                                 part.col_offset % kBlock, " of a scale block, another part of the same product at ",
                                 linear->lead);
    std::unique_ptr<DeviceBuffer> data = pack_part(part, index, *linear);
    PackedPart& packed = linear->parts[linear->part_count++];
    packed = {.data = static_cast<const uint8_t*>(data->data()),
              .scale = nullptr,
              .boundary = kGroup,
              .rows = static_cast<int>(part.rows),
              .groups = static_cast<int>((part.rows + kGroup - 1) / kGroup),
              .first = static_cast<int>(linear->rows_)};
    linear->bytes_ += data->size();
    owners.push_back(std::move(data));
    if (fp8) {
      std::unique_ptr<DeviceBuffer> scales = copy_scales(part, packed, *linear);
      packed.scale = static_cast<const float*>(scales->data());
      packed.boundary = boundary_of(part);
      linear->bytes_ += scales->size();
      owners.push_back(std::move(scales));
    }
    linear->rows_ += part.rows;
  }
  return linear;
}

std::unique_ptr<Linear> Packer::make_random(const RandomMatrix& matrix, std::vector<std::unique_ptr<Buffer>>& owners) {
  std::vector<LinearPart> parts;
  std::vector<std::vector<float>> scales;
  const bool fp8 = matrix.dtype == DType::kF8E4M3;
  const int64_t blocks = (matrix.cols + kBlock - 1) / kBlock;
  for (const int64_t rows : matrix.part_rows) {
    const int64_t count = fp8 ? (rows + kBlock - 1) / kBlock * blocks : 0;
    scales.push_back(random_scales(matrix.seed + scales.size(), count, 1.0f / std::sqrt(static_cast<float>(matrix.cols))));
    parts.push_back({.data = nullptr,
                     .dtype = matrix.dtype,
                     .rows = rows,
                     .cols = matrix.cols,
                     .row_stride = matrix.cols * size_of(matrix.dtype),
                     .scale = fp8 ? scales.back().data() : nullptr,
                     .scale_cols = blocks,
                     .row_offset = 0,
                     .col_offset = 0});
  }
  matrix_seed_ = matrix.seed;
  std::unique_ptr<Linear> linear = pack(parts, owners);
  matrix_seed_.reset();
  seed_.reset();
  return linear;
}

}  // namespace paceline::ops::cuda
