// The submodule `ops`: single operations of the CPU backend on numpy arrays, for tests and micro-benchmarks. Outputs are arrays
// that the caller passes, so that a test can look at the bytes around them.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <vector>

#include "base/error.h"
#include "bindings/bindings.h"
#include "ops/cpu/backend.h"

namespace paceline::bindings {

namespace py = pybind11;

namespace {

template <typename T>
using Array = py::array_t<T, 0>;

// The start of an array's data. It must be dense; without `dense_rows` the rows of a matrix may stand apart.
template <typename T>
T* data_of(const Array<T>& array, const char* name, bool dense_rows = true) {
  py::ssize_t expected = sizeof(T);
  for (py::ssize_t i = array.ndim() - 1; i >= 0 && array.size() > 0; --i) {
    const bool strided_row = !dense_rows && i == 0 && array.ndim() == 2;
    check<ConfigError>(strided_row || array.shape(i) <= 1 || array.strides(i) == expected, "array \"", name, "\" is not dense");
    expected *= array.shape(i);
  }
  return const_cast<T*>(array.data());
}

template <typename T>
int row_length(const Array<T>& array) {  // elements from a row to the next
  return static_cast<int>(array.shape(0) > 1 ? array.strides(0) / static_cast<py::ssize_t>(sizeof(T)) : array.shape(1));
}

DType dtype_of(const std::string& name) {
  if (name == "bf16") return DType::kBF16;
  if (name == "f16") return DType::kF16;
  if (name == "f32") return DType::kF32;
  check<ConfigError>(name == "f8_e4m3", "dtype is \"", name, "\", allowed are \"bf16\", \"f16\", \"f32\", \"f8_e4m3\"");
  return DType::kF8E4M3;
}

struct HostRows {  // Rows over numpy arrays
  Array<int32_t> slot, position, token;
  ops::Rows view() const {
    return {static_cast<int>(position.size()), data_of(slot, "slot"), data_of(position, "position"), data_of(token, "token")};
  }
};

ops::LinearPart part_of(const py::dict& fields) {
  const auto data = fields["data"].cast<py::array>();
  check<ConfigError>(data.ndim() == 2, "linear part data has ", data.ndim(), " dimensions, must have 2");
  ops::LinearPart part{};
  part.data = data.data();
  part.dtype = dtype_of(fields["dtype"].cast<std::string>());
  check<ConfigError>(data.itemsize() == size_of(part.dtype), "linear part data has items of ", data.itemsize(), " bytes");
  part.rows = data.shape(0);
  part.cols = data.shape(1);
  part.row_stride = data.strides(0);
  part.row_offset = fields.contains("row_offset") ? fields["row_offset"].cast<int64_t>() : 0;
  part.col_offset = fields.contains("col_offset") ? fields["col_offset"].cast<int64_t>() : 0;
  if (fields.contains("scale")) {
    check<ConfigError>(py::isinstance<Array<float>>(fields["scale"]),
                       "linear part scale is not float32");  // a converted copy would not live
    const auto scale = fields["scale"].cast<Array<float>>();
    part.scale = data_of(scale, "scale");
    part.scale_cols = scale.shape(1);
  }
  return part;
}

class CpuOps {
 public:
  CpuOps(const std::string& isa, int threads, bool oversubscribed)
      : isa_(ops::resolve_isa(isa)), ops_(ops::make_cpu_ops({isa, threads, oversubscribed})) {}

  const std::string& isa() const { return isa_; }

  std::unique_ptr<ops::Linear> pack(const std::vector<py::dict>& parts) {
    std::vector<ops::LinearPart> views;
    for (const py::dict& part : parts) views.push_back(part_of(part));
    return ops_->pack(views);
  }

  void embed(const Array<int32_t>& token, const py::array& table, const std::string& dtype, const Array<float>& out) {
    const ops::Rows rows{static_cast<int>(token.size()), nullptr, nullptr, data_of(token, "token")};
    ops_->embed(rows, table.data(), dtype_of(dtype), static_cast<int>(out.shape(1)), data_of(out, "out"));
  }

  void rms_norm(const Array<float>& x, const Array<float>& weight, float eps, const Array<uint16_t>& out) {
    ops_->rms_norm(data_of(x, "x"), data_of(weight, "weight"), eps, static_cast<int>(x.shape(0)), static_cast<int>(x.shape(1)),
                   data_of(out, "out"));
  }

  void linear(const ops::Linear& weight, const Array<uint16_t>& x, const Array<float>& y) {
    check<ConfigError>(x.shape(1) == weight.cols() && y.shape(0) == x.shape(0) && y.shape(1) == weight.rows(), "x is ",
                       x.shape(0), " x ", x.shape(1), " and y ", y.shape(0), " x ", y.shape(1), " for a weight of ",
                       weight.rows(), " x ", weight.cols());
    ops_->linear(weight, data_of(x, "x"), static_cast<int>(x.shape(0)), data_of(y, "y", false), row_length(y));
  }

  void swiglu(const Array<float>& gate_up, const Array<uint16_t>& out) {
    ops_->swiglu(data_of(gate_up, "gate_up"), static_cast<int>(out.shape(0)), static_cast<int>(out.shape(1)),
                 data_of(out, "out"));
  }

  // `in` holds qkv, heads, gated, q_norm, k_norm, eps, rotary_dim, rope; the caches are [slots, kv_heads, context, head_dim].
  void attention(const HostRows& rows, const py::dict& in, const Array<uint16_t>& key, const Array<uint16_t>& value,
                 const Array<uint16_t>& out) {
    const auto qkv = in["qkv"].cast<Array<float>>(), q_norm = in["q_norm"].cast<Array<float>>(),
               k_norm = in["k_norm"].cast<Array<float>>(), rope = in["rope"].cast<Array<float>>();
    const ops::KvCache cache{data_of(key, "key"), data_of(value, "value"), static_cast<int>(key.shape(1)),
                             static_cast<int>(key.shape(2)), static_cast<int>(key.shape(3))};
    const ops::AttentionInput input{
        data_of(qkv, "qkv", false), row_length(qkv),           in["heads"].cast<int>(), in["gated"].cast<bool>(),
        data_of(q_norm, "q_norm"),  data_of(k_norm, "k_norm"), in["eps"].cast<float>(), in["rotary_dim"].cast<int>(),
        data_of(rope, "rope")};
    ops_->attention(rows.view(), input, cache, data_of(out, "out"));
  }

  // `in` holds qkv, z, b, a, conv_weight, dt_bias, a_log, norm, eps; recurrent is [slots, value_heads, value_dim, key_dim], conv
  // [slots, kernel - 1, channels].
  void delta_net(const HostRows& rows, int key_heads, const py::dict& in, const Array<float>& recurrent, const Array<float>& conv,
                 bool chunked, const Array<uint16_t>& out) {
    const auto array = [&](const char* name) { return in[name].cast<Array<float>>(); };
    const auto qkv = array("qkv"), z = array("z"), b = array("b"), a = array("a"), conv_weight = array("conv_weight"),
               dt_bias = array("dt_bias"), a_log = array("a_log"), norm = array("norm");
    const ops::DeltaNetShape shape{key_heads, static_cast<int>(recurrent.shape(1)), static_cast<int>(recurrent.shape(3)),
                                   static_cast<int>(recurrent.shape(2)), static_cast<int>(conv_weight.shape(1))};
    check<ConfigError>(conv.shape(2) == shape.channels() && row_length(a) == row_length(b), "conv or gates do not fit the shape");
    const ops::DeltaNetInput input{data_of(qkv, "qkv", false),
                                   data_of(z, "z", false),
                                   data_of(b, "b", false),
                                   data_of(a, "a", false),
                                   row_length(qkv),
                                   row_length(z),
                                   row_length(b),
                                   data_of(conv_weight, "conv_weight"),
                                   data_of(dt_bias, "dt_bias"),
                                   data_of(a_log, "a_log"),
                                   data_of(norm, "norm"),
                                   in["eps"].cast<float>()};
    ops_->delta_net(rows.view(), shape, input, {data_of(recurrent, "recurrent"), data_of(conv, "conv")}, chunked,
                    data_of(out, "out"));
  }

  void gather(const Array<float>& in, const std::vector<int32_t>& index, const Array<float>& out) {
    ops_->gather(data_of(in, "in"), index.data(), static_cast<int>(index.size()), static_cast<int>(in.shape(1)),
                 data_of(out, "out"));
  }

  void argmax(const Array<float>& x, const Array<float>& value, const Array<int32_t>& index) {
    ops_->argmax(data_of(x, "x", false), static_cast<int>(x.shape(0)), static_cast<int>(x.shape(1)), row_length(x),
                 data_of(value, "value"), data_of(index, "index"));
  }

  void add_partials(const std::vector<Array<float>>& partials, const Array<float>& target) {
    std::vector<const float*> starts;
    for (const Array<float>& partial : partials) starts.push_back(data_of(partial, "partial"));
    ops_->add_partials(starts, target.size(), data_of(target, "target"));
  }

 private:
  std::string isa_;
  std::unique_ptr<ops::Ops> ops_;
};

}  // namespace

void bind_ops(py::module_& module) {
  py::module_ submodule = module.def_submodule("ops", "Single operations of the CPU backend, for tests and micro-benchmarks.");
  py::class_<ops::Linear>(submodule, "Linear")
      .def_property_readonly("rows", &ops::Linear::rows)
      .def_property_readonly("cols", &ops::Linear::cols)
      .def_property_readonly("bytes", &ops::Linear::bytes);
  py::class_<HostRows>(submodule, "Rows")
      .def(py::init<Array<int32_t>, Array<int32_t>, Array<int32_t>>(), py::arg("slot").noconvert(),
           py::arg("position").noconvert(), py::arg("token").noconvert());
  py::class_<CpuOps>(submodule, "CpuOps")
      .def(py::init<const std::string&, int, bool>(), py::kw_only(), py::arg("isa") = "auto", py::arg("threads") = 1,
           py::arg("oversubscribed") = false)
      .def_property_readonly("isa", &CpuOps::isa)
      .def("pack", &CpuOps::pack, py::arg("parts"))
      .def("embed", &CpuOps::embed, py::arg("token").noconvert(), py::arg("table"), py::arg("dtype"), py::arg("out").noconvert())
      .def("rms_norm", &CpuOps::rms_norm, py::arg("x").noconvert(), py::arg("weight").noconvert(), py::arg("eps"),
           py::arg("out").noconvert())
      .def("linear", &CpuOps::linear, py::arg("weight").noconvert(), py::arg("x").noconvert(), py::arg("y").noconvert())
      .def("swiglu", &CpuOps::swiglu, py::arg("gate_up").noconvert(), py::arg("out").noconvert())
      .def("attention", &CpuOps::attention, py::arg("rows"), py::arg("inputs"), py::arg("key").noconvert(),
           py::arg("value").noconvert(), py::arg("out").noconvert())
      .def("delta_net", &CpuOps::delta_net, py::arg("rows"), py::arg("key_heads"), py::arg("inputs"),
           py::arg("recurrent").noconvert(), py::arg("conv").noconvert(), py::arg("chunked"), py::arg("out").noconvert())
      .def("gather", &CpuOps::gather, py::arg("inputs"), py::arg("index"), py::arg("out").noconvert())
      .def("argmax", &CpuOps::argmax, py::arg("x").noconvert(), py::arg("value").noconvert(), py::arg("index").noconvert())
      .def("add_partials", &CpuOps::add_partials, py::arg("partials"), py::arg("target").noconvert());
}

}  // namespace paceline::bindings
