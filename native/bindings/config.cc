#include "model/config.h"

#include <pybind11/stl.h>

#include "base/error.h"
#include "bindings/bindings.h"
#include "model/family.h"
#include "runtime/options.h"

namespace paceline::bindings {

namespace py = pybind11;

namespace {

model::LayerType layer_type(const std::string& name, size_t layer) {
  if (name == "full_attention") return model::LayerType::kFullAttention;
  if (name == "linear_attention") return model::LayerType::kLinearAttention;
  throw ConfigError(
      concat("layer_types[", layer, "] = \"", name, "\" cannot be served: it must be full_attention or linear_attention"));
}

// One keyword a field, named as in the checkpoint's own configuration.
model::ModelConfig make_config(const std::string& family, int vocab_size, int hidden_size, int intermediate_size, int num_layers,
                               int num_heads, int num_kv_heads, int head_dim, int rotary_dim, double rope_theta,
                               float rms_norm_eps, const std::vector<std::string>& layer_types, int linear_num_key_heads,
                               int linear_num_value_heads, int linear_key_head_dim, int linear_value_head_dim,
                               int linear_conv_kernel) {
  check<ConfigError>(layer_types.size() == static_cast<size_t>(std::max(num_layers, 0)), "num_layers = ", num_layers,
                     " cannot be served: layer_types has ", layer_types.size(), " entries, one a layer is needed");
  model::ModelConfig config;
  config.family = family;
  config.vocab_size = vocab_size;
  config.hidden_size = hidden_size;
  config.intermediate_size = intermediate_size;
  config.num_heads = num_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  config.rotary_dim = rotary_dim;
  config.rope_theta = rope_theta;
  config.rms_norm_eps = rms_norm_eps;
  for (size_t layer = 0; layer < layer_types.size(); ++layer) config.layers.push_back(layer_type(layer_types[layer], layer));
  config.linear_num_key_heads = linear_num_key_heads;
  config.linear_num_value_heads = linear_num_value_heads;
  config.linear_key_head_dim = linear_key_head_dim;
  config.linear_value_head_dim = linear_value_head_dim;
  config.linear_conv_kernel = linear_conv_kernel;
  model::validate(config);
  model::find_family(config.family).validate(config);
  return config;
}

runtime::EngineOptions make_options(const std::string& mode, int tp, int slots, int context, int threads, int prefill_rows,
                                    int queue_limit, const std::string& isa, const std::string& device, int64_t weight_bytes,
                                    const std::string& nodes) {
  runtime::EngineOptions options;
  options.mode = mode;
  options.tp = tp;
  options.slots = slots;
  options.context = context;
  options.threads = threads;
  options.prefill_rows = prefill_rows;
  options.queue_limit = queue_limit;
  options.isa = isa;
  options.device = device;
  options.weight_bytes = weight_bytes;
  options.nodes = nodes;
  runtime::validate(options);
  return options;
}

}  // namespace

void bind_config(py::module_& module) {
  py::class_<model::ModelConfig>(module, "ModelConfig",
                                 "Dimensions of the whole model. Raises ConfigError on what cannot be served.")
      .def(py::init(&make_config), py::kw_only(), py::arg("family"), py::arg("vocab_size"), py::arg("hidden_size"),
           py::arg("intermediate_size"), py::arg("num_layers"), py::arg("num_heads"), py::arg("num_kv_heads"),
           py::arg("head_dim"), py::arg("rotary_dim"), py::arg("rope_theta"), py::arg("rms_norm_eps"), py::arg("layer_types"),
           py::arg("linear_num_key_heads") = 0, py::arg("linear_num_value_heads") = 0, py::arg("linear_key_head_dim") = 0,
           py::arg("linear_value_head_dim") = 0, py::arg("linear_conv_kernel") = 0);
  py::class_<runtime::EngineOptions>(module, "EngineOptions", "How an engine runs. Raises ConfigError on what cannot be served.")
      .def(py::init(&make_options), py::kw_only(), py::arg("mode"), py::arg("tp"), py::arg("slots"), py::arg("context"),
           py::arg("threads") = 0, py::arg("prefill_rows") = 256, py::arg("queue_limit") = 4096, py::arg("isa") = "auto",
           py::arg("device") = "cpu", py::arg("weight_bytes") = 0, py::arg("nodes") = kMemoryNodes);
}

}  // namespace paceline::bindings
