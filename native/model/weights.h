// One rank's weights, by name: what a family expects, and what has been given so far.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/ops.h"

namespace paceline::model {

enum class TensorKind : uint8_t { kMatrix, kVector };

// A tensor of the schema. A matrix is [sum of part_rows, cols]; a vector is [part_rows[0]], or [part_rows[0], cols] where cols >
// 0.
struct TensorSpec {
  std::string name;
  TensorKind kind;
  std::vector<int64_t> part_rows;  // output features, part by part
  int64_t cols;

  int64_t rows() const;
  int64_t elements() const { return rows() * (cols > 0 ? cols : 1); }
};

struct MatrixPart {
  ops::LinearPart slice;
  int64_t scale_rows;  // rows of the whole scale tensor; 0 without scales
};

class WeightStore {
 public:
  WeightStore(int rank, std::vector<TensorSpec> schema);

  // Checks and packs a matrix. `parts` follow the schema's parts, or one part holds all of them. The data is copied.
  // Throws WeightError on an unknown name, a second call, a wrong shape, type or scale.
  void set_matrix(const std::string& name, std::span<const MatrixPart> parts, ops::Ops& ops);

  // As above, for float32 values of the given shape (1-D, or 2-D).
  void set_vector(const std::string& name, std::span<const float> values, std::span<const int64_t> shape, ops::Ops& ops);

  // A matrix of random numbers of that type, made by the backend. Throws WeightError as above, and where the backend makes none.
  void make_random(const std::string& name, DType dtype, uint64_t seed, ops::Ops& ops);

  std::vector<std::string> missing() const;  // in the schema's order

  const ops::Linear* matrix(const std::string& name) const;  // must have been set
  const float* vector(const std::string& name) const;        // likewise; memory of the backend
  size_t bytes() const { return bytes_; }                    // as kept in memory
  size_t matrix_bytes() const { return matrix_bytes_; }      // what one pass over all matrices reads

 private:
  struct Entry {
    TensorSpec spec;
    std::unique_ptr<ops::Linear> matrix;
    std::unique_ptr<ops::Buffer> vector;
    bool set() const { return matrix != nullptr || vector != nullptr; }
  };

  Entry& claim(const std::string& name, TensorKind kind);
  std::string where(const std::string& name) const;

  int rank_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
  size_t bytes_ = 0;
  size_t matrix_bytes_ = 0;
};

}  // namespace paceline::model
