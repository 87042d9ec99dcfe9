#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "ops/cpu/backend.h"
#include "runtime/devices.h"

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
  info["backends"] = runtime::backends();
  return info;
}

py::list devices() {
  py::list found;
  for (const runtime::Device& device : runtime::devices()) {
    py::dict facts;
    facts["name"] = device.name;
    facts["model"] = device.model;
    facts["capability"] = device.capability;
    facts["memory"] = device.memory;
    found.append(facts);
  }
  return found;
}

}  // namespace

void bind_build(py::module_& module) {
  module.attr("API_VERSION") = kApiVersion;
  module.def("build_info", &build_info, "compiler, flags, build_type, isa_paths compiled in, backends.");
  module.def("devices", &devices, "Devices beyond the CPU that `device` may name: name, model, capability, memory in bytes.");
  module.def("isa_paths", &isa_paths, "Kernel paths compiled in, widest first: whether this CPU can run each.");
}

}  // namespace paceline::bindings
