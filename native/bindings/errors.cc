#include "base/error.h"

#include "bindings/bindings.h"

namespace paceline::bindings {

namespace py = pybind11;

void bind_errors(py::module_& module) {
  // Translators are tried last registered first: the base stands before what derives from it.
  const auto& base = py::register_exception<Error>(module, "NativeError", PyExc_RuntimeError);
  py::register_exception<ConfigError>(module, "ConfigError", base);
  py::register_exception<WeightError>(module, "WeightError", base);
  py::register_exception<OutOfMemoryError>(module, "OutOfMemoryError", base);
  py::register_exception<RequestRefused>(module, "RequestRefused", base);
  py::register_exception<EngineClosed>(module, "EngineClosed", base);
}

}  // namespace paceline::bindings
