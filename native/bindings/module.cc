// The Python module: a table of contents.
#include "bindings/bindings.h"

PYBIND11_MODULE(_native, module) {
  using namespace paceline::bindings;
  module.doc() = "The compiled engine. Only engine.binding imports it.";
  bind_errors(module);
  bind_build(module);
  bind_config(module);
  bind_weights(module);
  bind_request(module);
  bind_engine(module);
  bind_ops(module);
}
