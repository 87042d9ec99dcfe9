#include "ops/cpu/packing.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/fp8.h"

namespace paceline::ops::cpu {
namespace {

constexpr int64_t kReadAhead = 4096;  // bytes behind the weights that a prefetch may name; never read

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Input features packed at a time: 32 rows of a cache line each come in, and whole lines go out.
constexpr int64_t kStep = 32;

// Block `block` of a part that is not FP8; `read` gives the bfloat16 bits of element k of a row.
template <typename Read>
void pack_bf16_block(const LinearPart& part, int64_t block, uint16_t* out, Read&& read) {
  const int64_t columns = std::min<int64_t>(kBlockColumns, part.rows - block * kBlockColumns);
  const char* rows = static_cast<const char*>(part.data) + block * kBlockColumns * part.row_stride;
  for (int64_t k = 0; k < part.cols; k += kStep) {
    const int64_t last = std::min(part.cols, k + kStep);
    for (int64_t c = 0; c < columns; ++c) {
      const char* row = rows + c * part.row_stride;
      for (int64_t i = k; i < last; ++i) out[(i / 2) * 2 * kBlockColumns + 2 * c + i % 2] = read(row, i);
    }
  }
}

void pack_fp8_block(const LinearPart& part, int64_t block, int64_t lead, uint8_t* out) {
  const int64_t columns = std::min<int64_t>(kBlockColumns, part.rows - block * kBlockColumns);
  const uint8_t* rows = static_cast<const uint8_t*>(part.data) + block * kBlockColumns * part.row_stride;
  for (int64_t k = 0; k < part.cols; k += kStep) {
    const int64_t last = std::min(part.cols, k + kStep);
    for (int64_t c = 0; c < columns; ++c) {
      const uint8_t* row = rows + c * part.row_stride;
      uint8_t* column = out + 2 * fp8_place(static_cast<int>(c));
      for (int64_t i = k; i < last; ++i) column[(lead + i) / 2 * 2 * kBlockColumns + (lead + i) % 2] = row[i];
    }
  }
}

template <typename T>
T element(const char* row, int64_t k) {  // rows of a mapped file need not be aligned
  T value;
  std::memcpy(&value, row + k * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

void pack_block(const LinearPart& part, const PackedPart& packed, int64_t block, uint8_t* data) {
  uint8_t* out = data + block * packed.depth * kBlockColumns * (packed.fp8 ? 1 : 2);
  auto* wide = reinterpret_cast<uint16_t*>(out);
  switch (part.dtype) {
    case DType::kF8E4M3:
      pack_fp8_block(part, block, packed.lead, out);
      return;
    case DType::kBF16:
      pack_bf16_block(part, block, wide, element<uint16_t>);
      return;
    case DType::kF16:
      pack_bf16_block(part, block, wide,
                      [](const char* row, int64_t k) { return float_to_bf16(half_to_float(element<uint16_t>(row, k))); });
      return;
    case DType::kF32:
      pack_bf16_block(part, block, wide, [](const char* row, int64_t k) { return float_to_bf16(element<float>(row, k)); });
      return;
  }
}

// The scales of a block's 32 columns for each block of 128 input features. A block of 32 meets at most two rows of scales.
void pack_scales(const LinearPart& part, const PackedPart& packed, int64_t block, float* scale, int32_t* split) {
  const int64_t first_row = part.row_offset + block * kBlockColumns;
  const int64_t to_boundary = kScaleBlock - first_row % kScaleBlock;
  const int64_t last_row = part.row_offset + std::min(part.rows, (block + 1) * kBlockColumns) - 1;
  split[block] = static_cast<int32_t>(std::min<int64_t>(kBlockColumns, to_boundary));
  const int64_t scale_blocks = packed.depth / kScaleBlock;
  const int64_t first_column = (part.col_offset - packed.lead) / kScaleBlock;
  for (int64_t kb = 0; kb < scale_blocks; ++kb) {
    float* out = scale + 2 * (block * scale_blocks + kb);
    out[0] = part.scale[first_row / kScaleBlock * part.scale_cols + first_column + kb];
    out[1] = part.scale[last_row / kScaleBlock * part.scale_cols + first_column + kb];
  }
}

void check_part(const LinearPart& part, int64_t cols, int index) {
  check<WeightError>(part.data != nullptr, "linear part ", index, " has no data");
  check<WeightError>(part.rows > 0 && part.cols > 0, "linear part ", index, " is ", part.rows, " x ", part.cols,
                     ", both must be positive");
  check<WeightError>(part.cols == cols, "linear part ", index, " has ", part.cols, " input features, part 0 has ", cols);
  check<WeightError>(part.row_stride >= part.cols * size_of(part.dtype), "linear part ", index, " has a row stride of ",
                     part.row_stride, " bytes for rows of ", part.cols * size_of(part.dtype));
  if (part.dtype != DType::kF8E4M3) return;
  check<WeightError>(part.scale != nullptr, "linear part ", index, " is FP8 and has no block scales");
  check<WeightError>(part.row_offset >= 0 && part.col_offset >= 0, "linear part ", index, " starts at a negative offset");
  const int64_t needed = (part.col_offset + part.cols + kScaleBlock - 1) / kScaleBlock;
  check<WeightError>(part.scale_cols >= needed, "linear part ", index, " has ", part.scale_cols, " scales a row, needs ", needed);
}

}  // namespace

PackedLinear::PackedLinear(std::span<const LinearPart> parts, Team& team) {
  check<WeightError>(!parts.empty(), "a linear layer needs at least one part");
  cols_ = parts[0].cols;
  for (size_t i = 0; i < parts.size(); ++i) {
    check_part(parts[i], cols_, static_cast<int>(i));
    add_part(parts[i]);
  }
  divide(team.threads());
  team.run([&](int thread, int) {
    for (const BlockSpan& span : spans_[thread]) {
      const LinearPart& part = parts[span.part];
      const PackedPart& packed = parts_[span.part];
      for (int64_t block = span.first; block < span.last; ++block) {
        pack_block(part, packed, block, const_cast<uint8_t*>(packed.data));
        if (packed.fp8) pack_scales(part, packed, block, const_cast<float*>(packed.scale), const_cast<int32_t*>(packed.split));
      }
    }
  });
}

void PackedLinear::add_part(const LinearPart& part) {
  PackedPart packed{};
  packed.fp8 = part.dtype == DType::kF8E4M3;
  packed.rows = part.rows;
  packed.cols = part.cols;
  packed.lead = packed.fp8 ? part.col_offset % kScaleBlock : 0;
  packed.depth = round_up(packed.lead + part.cols, packed.fp8 ? kScaleBlock : 32);
  packed.blocks = round_up(part.rows, kBlockColumns) / kBlockColumns;
  packed.column = rows_;
  const size_t data_bytes = static_cast<size_t>(packed.blocks * kBlockColumns * packed.depth) * (packed.fp8 ? 1 : 2);
  storage_.emplace_back(data_bytes + kReadAhead);
  packed.data = storage_.back().as<uint8_t>();
  bytes_ += data_bytes;
  if (packed.fp8) {
    const size_t scale_bytes = static_cast<size_t>(packed.blocks * (packed.depth / kScaleBlock)) * 2 * sizeof(float);
    const size_t split_bytes = static_cast<size_t>(packed.blocks) * sizeof(int32_t);
    storage_.emplace_back(scale_bytes);
    packed.scale = storage_.back().as<float>();
    storage_.emplace_back(split_bytes);
    packed.split = storage_.back().as<int32_t>();
    bytes_ += scale_bytes + split_bytes;
  }
  parts_.push_back(packed);
  rows_ += part.rows;
}

// Cuts all parts' blocks, one after the other, into one stretch of nearly equal bytes a thread.
void PackedLinear::divide(int threads) {
  spans_.resize(threads);
  const auto cost = [](const PackedPart& part) { return part.depth * (part.fp8 ? 1 : 2); };
  int64_t total = 0, before = 0;
  for (const PackedPart& part : parts_) total += part.blocks * cost(part);
  for (size_t i = 0; i < parts_.size(); ++i) {
    for (int64_t block = 0; block < parts_[i].blocks; ++block, before += cost(parts_[i])) {
      const int64_t middle = before + cost(parts_[i]) / 2;
      std::vector<BlockSpan>& own = spans_[std::min<int64_t>(threads - 1, middle * threads / total)];
      if (own.empty() || own.back().part != static_cast<int>(i)) own.push_back({static_cast<int>(i), block, block});
      own.back().last = block + 1;
    }
  }
}

}  // namespace paceline::ops::cpu
