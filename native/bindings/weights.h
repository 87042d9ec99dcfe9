// Arrays of checkpoints, as Python hands them over.
#pragma once

#include <pybind11/numpy.h>

#include <string>

#include "model/weights.h"

namespace paceline::bindings {

struct PyMatrixPart {  // a view that keeps its arrays alive
  pybind11::array data;
  pybind11::object scale;
  model::MatrixPart part;
};

// The type of that name, for an array whose elements are stored as numpy knows them (bf16 and f16 as uint16, f8_e4m3 as uint8).
// Throws WeightError where the name is unknown or the array has other elements.
DType stored_dtype(const std::string& name, const pybind11::array& data);

}  // namespace paceline::bindings
