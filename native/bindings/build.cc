#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "ops/cpu/backend.h"

namespace paceline::bindings {

namespace py = pybind11;

namespace {

constexpr int kApiVersion = 1;

py::dict isa_paths() {
  py::dict paths;
  for (const ops::IsaPath& path : ops::cpu_isa_paths()) paths[py::str(path.name)] = path.usable;
  return paths;
}

py::dict build_info() {
  py::dict info;
  info["compiler"] = PACELINE_COMPILER;
  info["flags"] = PACELINE_FLAGS;
  info["build_type"] = PACELINE_BUILD_TYPE;
  info["isa_paths"] = py::list(isa_paths());
  py::list backends;
  backends.append("cpu");
  info["backends"] = backends;
  return info;
}

}  // namespace

void bind_build(py::module_& module) {
  module.attr("API_VERSION") = kApiVersion;
  module.def("build_info", &build_info, "compiler, flags, build_type, isa_paths compiled in, backends.");
  module.def("isa_paths", &isa_paths, "Kernel paths compiled in, widest first: whether this CPU can run each.");
}

}  // namespace paceline::bindings
