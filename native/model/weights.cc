#include "model/weights.h"

#include <numeric>

#include "base/error.h"

namespace paceline::model {
namespace {

constexpr int64_t kBlock = 128;  // rows and columns of one FP8 scale

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

void check_scale(const std::string& where, size_t index, const MatrixPart& part) {
  const ops::LinearPart& slice = part.slice;
  if (slice.dtype != DType::kF8E4M3) {
    if (slice.scale != nullptr)
      throw WeightError(concat(where, ": part ", index, " has block scales, which belong to f8_e4m3 alone"));
    return;
  }
  if (slice.scale == nullptr) throw WeightError(concat(where, ": part ", index, " is f8_e4m3 and has no block scales"));
  const int64_t needed_rows = (slice.row_offset + slice.rows + kBlock - 1) / kBlock;
  const int64_t needed_cols = (slice.col_offset + slice.cols + kBlock - 1) / kBlock;
  if (part.scale_rows < needed_rows || slice.scale_cols < needed_cols) {
    throw WeightError(concat(where, ": part ", index, " has block scales [", part.scale_rows, ", ", slice.scale_cols,
                             "], its slice needs at least [", needed_rows, ", ", needed_cols, "]"));
  }
}

}  // namespace

int64_t TensorSpec::rows() const { return std::accumulate(part_rows.begin(), part_rows.end(), int64_t{0}); }

WeightStore::WeightStore(int rank, std::vector<TensorSpec> schema) : rank_(rank) {
  for (TensorSpec& spec : schema) {
    by_name_.emplace(spec.name, entries_.size());
    entries_.push_back({std::move(spec), nullptr, nullptr});
  }
}

std::string WeightStore::where(const std::string& name) const { return concat("rank ", rank_, ", tensor ", name); }

WeightStore::Entry& WeightStore::claim(const std::string& name, TensorKind kind) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) throw WeightError(concat(where(name), ": the model has no tensor of this name"));
  Entry& entry = entries_[found->second];
  if (entry.spec.kind != kind) {
    throw WeightError(
        concat(where(name), ": it is a ", kind == TensorKind::kMatrix ? "vector (set_vector)" : "matrix (set_matrix)"));
  }
  if (entry.set()) throw WeightError(concat(where(name), ": set twice"));
  return entry;
}

void WeightStore::set_matrix(const std::string& name, std::span<const MatrixPart> parts, ops::Ops& ops) {
  Entry& entry = claim(name, TensorKind::kMatrix);
  const TensorSpec& spec = entry.spec;
  std::vector<int64_t> rows;
  std::vector<ops::LinearPart> slices;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ops::LinearPart& slice = parts[i].slice;
    if (slice.cols != spec.cols) {
      throw WeightError(concat(where(name), ": part ", i, " has ", slice.cols, " columns, expected ", spec.cols));
    }
    check_scale(where(name), i, parts[i]);
    rows.push_back(slice.rows);
    slices.push_back(slice);
  }
  const bool fused = rows.size() == 1 && rows[0] == spec.rows();
  if (rows != spec.part_rows && !fused) {
    throw WeightError(concat(where(name), ": its parts have ", shape_text(rows), " rows, expected ", shape_text(spec.part_rows)));
  }
  entry.matrix = ops.pack(slices);
  bytes_ += entry.matrix->bytes();
  matrix_bytes_ += entry.matrix->bytes();
}

void WeightStore::make_random(const std::string& name, DType dtype, uint64_t seed, ops::Ops& ops) {
  Entry& entry = claim(name, TensorKind::kMatrix);
  check<WeightError>(dtype == DType::kBF16 || dtype == DType::kF8E4M3, where(name), ": random numbers are bf16 or f8_e4m3");
  entry.matrix = ops.make_random({.part_rows = entry.spec.part_rows, .cols = entry.spec.cols, .dtype = dtype, .seed = seed});
  check<WeightError>(entry.matrix != nullptr, where(name), ": this backend makes no random weights");
  bytes_ += entry.matrix->bytes();
  matrix_bytes_ += entry.matrix->bytes();
}

void WeightStore::set_vector(const std::string& name, std::span<const float> values, std::span<const int64_t> shape,
                             ops::Ops& ops) {
  Entry& entry = claim(name, TensorKind::kVector);
  std::vector<int64_t> expected = {entry.spec.rows()};
  if (entry.spec.cols > 0) expected.push_back(entry.spec.cols);
  if (!std::equal(shape.begin(), shape.end(), expected.begin(), expected.end())) {
    throw WeightError(concat(where(name), ": its shape is ", shape_text(shape), ", expected ", shape_text(expected)));
  }
  entry.vector = ops.allocate(values.size_bytes());
  ops.upload(entry.vector->data(), values.data(), values.size_bytes());
  bytes_ += values.size_bytes();
}

std::vector<std::string> WeightStore::missing() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    if (!entry.set()) names.push_back(entry.spec.name);
  }
  return names;
}

const ops::Linear* WeightStore::matrix(const std::string& name) const { return entries_.at(by_name_.at(name)).matrix.get(); }

const float* WeightStore::vector(const std::string& name) const {
  return static_cast<const float*>(entries_.at(by_name_.at(name)).vector->data());
}

}  // namespace paceline::model
