// The parts of the Python module. Each adds its names to the module; module.cc lists them.
#pragma once

#include <pybind11/pybind11.h>

namespace paceline::bindings {

void bind_errors(pybind11::module_& module);   // errors.cc: the exceptions
void bind_build(pybind11::module_& module);    // build.cc: API_VERSION, build_info, isa_paths
void bind_config(pybind11::module_& module);   // config.cc: ModelConfig, EngineOptions
void bind_weights(pybind11::module_& module);  // weights.cc: MatrixPart
void bind_request(pybind11::module_& module);  // request.cc: Request
void bind_engine(pybind11::module_& module);   // engine.cc: Engine
void bind_ops(pybind11::module_& module);      // ops.cc: the submodule `ops`, single operations for tests

}  // namespace paceline::bindings
