#include "bindings/weights.h"

#include "base/error.h"
#include "bindings/bindings.h"

namespace paceline::bindings {

namespace py = pybind11;

namespace {

// Rows may be any distance apart, the elements of a row stand together.
void require_matrix(const char* what, const py::array& data) {
  check<WeightError>(data.ndim() == 2, what, " has ", data.ndim(), " dimensions, expected 2");
  const bool contiguous = data.shape(1) <= 1 || data.strides(1) == data.itemsize();
  check<WeightError>(contiguous, what, ": the elements of a row must stand together, their stride is ", data.strides(1),
                     " bytes");
}

PyMatrixPart make_part(py::array data, const std::string& dtype, const py::object& scale, int64_t row_offset,
                       int64_t col_offset) {
  require_matrix("a matrix part", data);
  check<WeightError>(row_offset >= 0 && col_offset >= 0, "a matrix part's offsets are (", row_offset, ", ", col_offset,
                     "), they must be at least 0");
  model::MatrixPart part = {};
  part.slice.data = data.data();
  part.slice.dtype = stored_dtype(dtype, data);
  part.slice.rows = data.shape(0);
  part.slice.cols = data.shape(1);
  part.slice.row_stride = data.strides(0);
  part.slice.row_offset = row_offset;
  part.slice.col_offset = col_offset;
  if (!scale.is_none()) {
    check<WeightError>(py::isinstance<py::array_t<float>>(scale), "block scales must be an array of float32");
    const auto scales = py::array_t<float, py::array::c_style>::ensure(scale);
    require_matrix("an array of block scales", scales);
    part.slice.scale = scales.data();
    part.slice.scale_cols = scales.shape(1);
    part.scale_rows = scales.shape(0);
    return {std::move(data), scales, part};
  }
  return {std::move(data), py::none(), part};
}

}  // namespace

DType stored_dtype(const std::string& name, const py::array& data) {
  const auto stored = [&](const char* kind, DType type) {
    check<WeightError>(data.dtype().equal(py::dtype(kind)), "an array of ", name, " has elements of ",
                       std::string(py::str(data.dtype())), ", expected ", kind);
    return type;
  };
  if (name == "bf16") return stored("uint16", DType::kBF16);
  if (name == "f16") return stored("uint16", DType::kF16);
  if (name == "f32") return stored("float32", DType::kF32);
  if (name == "f8_e4m3") return stored("uint8", DType::kF8E4M3);
  throw WeightError(concat("dtype = \"", name, "\" is unknown: it must be bf16, f16, f32 or f8_e4m3"));
}

void bind_weights(py::module_& module) {
  py::class_<PyMatrixPart>(module, "MatrixPart", "One rank's slice of one checkpoint tensor, a view. Raises WeightError.")
      .def(py::init(&make_part), py::arg("data"), py::arg("dtype"), py::arg("scale") = py::none(), py::arg("row_offset") = 0,
           py::arg("col_offset") = 0);
}

}  // namespace paceline::bindings
