#include "runtime/engine.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "base/error.h"
#include "bindings/bindings.h"
#include "bindings/request.h"
#include "bindings/weights.h"
#include "ops/cpu/backend.h"

namespace paceline::bindings {

namespace py = pybind11;

namespace {

using Ids = py::array_t<int32_t, py::array::c_style>;

struct PyEngine {
  std::unique_ptr<runtime::Engine> engine;
  py::object embedding;  // the mapped table, which native code reads in place
};

std::unique_ptr<PyEngine> make_engine(const model::ModelConfig& config, const runtime::EngineOptions& options) {
  const py::gil_scoped_release release;
  auto self = std::make_unique<PyEngine>();
  self->engine = std::make_unique<runtime::Engine>(config, options);
  return self;
}

void set_matrix(PyEngine& self, int rank, const std::string& name, const std::vector<const PyMatrixPart*>& parts) {
  std::vector<model::MatrixPart> slices;
  for (const PyMatrixPart* part : parts) slices.push_back(part->part);
  const py::gil_scoped_release release;  // the caller's list keeps the arrays alive
  self.engine->set_matrix(rank, name, slices);
}

void set_vector(PyEngine& self, int rank, const std::string& name, const py::array& values) {
  check<WeightError>(py::isinstance<py::array_t<float>>(values), "rank ", rank, ", tensor ", name, ": its elements are ",
                     std::string(py::str(values.dtype())), ", expected float32");
  const auto contiguous = py::array_t<float, py::array::c_style>::ensure(values);
  const std::vector<int64_t> shape(contiguous.shape(), contiguous.shape() + contiguous.ndim());
  const std::span<const float> span(contiguous.data(), static_cast<size_t>(contiguous.size()));
  const py::gil_scoped_release release;
  self.engine->set_vector(rank, name, span, shape);
}

void set_embedding(PyEngine& self, const py::array& table, const std::string& dtype) {
  check<WeightError>(table.ndim() == 2, "tensor embed has ", table.ndim(), " dimensions, expected 2");
  check<WeightError>((table.flags() & py::array::c_style) != 0,
                     "tensor embed: the table must be C-contiguous, it is read in place");
  const model::Embedding embedding = {.table = table.data(), .dtype = stored_dtype(dtype, table)};
  self.engine->set_embedding(embedding, table.shape(0), table.shape(1));
  self.embedding = table;
}

void make_random_matrix(PyEngine& self, int rank, const std::string& name, const std::string& dtype, uint64_t seed) {
  check<WeightError>(dtype == "bf16" || dtype == "f8_e4m3", "dtype = \"", dtype, "\" is unknown: it must be bf16 or f8_e4m3");
  const py::gil_scoped_release release;
  self.engine->make_random_matrix(rank, name, dtype == "bf16" ? DType::kBF16 : DType::kF8E4M3, seed);
}

void make_random_embedding(PyEngine& self, uint64_t seed) {
  const py::gil_scoped_release release;
  self.engine->make_random_embedding(seed);
}

void finish_loading(PyEngine& self) {
  const py::gil_scoped_release release;
  self.engine->finish_loading();
}

runtime::RequestSpec make_spec(const Ids& prompt, int max_new_tokens) {
  check<RequestRefused>(prompt.ndim() == 1, "prompt_ids has ", prompt.ndim(), " dimensions, expected 1");
  runtime::RequestSpec spec;
  spec.prompt.assign(prompt.data(), prompt.data() + prompt.size());
  spec.max_new_tokens = max_new_tokens;
  return spec;
}

PyRequest submit(PyEngine& self, const Ids& prompt_ids, int max_new_tokens, std::vector<int32_t> stop_ids, bool keep_logits,
                 const runtime::Sampling& sampling) {
  runtime::RequestSpec spec = make_spec(prompt_ids, max_new_tokens);
  spec.stop_ids = std::move(stop_ids);
  spec.keep_logits = keep_logits;
  spec.sampling = sampling;
  const py::gil_scoped_release release;
  return {self.engine->submit(std::move(spec)), self.engine->config().vocab_size};
}

std::vector<PyRequest> submit_all(PyEngine& self, const std::vector<Ids>& prompts, int max_new_tokens, bool keep_logits) {
  std::vector<runtime::RequestSpec> specs;
  for (const Ids& prompt : prompts) {
    specs.push_back(make_spec(prompt, max_new_tokens));
    specs.back().keep_logits = keep_logits;
  }
  const py::gil_scoped_release release;
  std::vector<PyRequest> requests;
  for (auto& request : self.engine->submit_all(std::move(specs)))
    requests.push_back({std::move(request), self.engine->config().vocab_size});
  return requests;
}

py::dict stats(const PyEngine& self) {
  const runtime::Counters counters = self.engine->stats();
  py::dict result;
  result["submitted"] = counters.submitted;
  result["refused"] = counters.refused;
  result["waiting"] = counters.waiting;
  result["dropped"] = counters.dropped;
  result["admitted"] = counters.admitted;
  result["running"] = counters.running;
  result["finished"] = counters.finished;
  result["cancelled"] = counters.cancelled;
  result["closed"] = counters.closed;
  result["failed"] = counters.failed;
  result["peak_running"] = counters.peak_running;
  result["peak_waiting"] = counters.peak_waiting;
  result["steps"] = counters.steps;
  result["prefill_steps"] = counters.prefill_steps;
  result["decode_steps"] = counters.decode_steps;
  result["rows_per_step"] = counters.rows_per_step;
  result["prefill_seconds"] = counters.prefill_seconds;
  result["decode_seconds"] = counters.decode_seconds;
  result["prompt_tokens"] = counters.prompt_tokens;
  result["generated_tokens"] = counters.generated_tokens;
  return result;
}

py::dict memory(const PyEngine& self) {
  const runtime::MemoryUse use = self.engine->memory();
  py::dict result;
  result["weights"] = use.weights;
  result["kv_cache"] = use.kv_cache;
  result["state"] = use.state;
  result["scratch"] = use.scratch;
  return result;
}

py::dict facts(const PyEngine& self) {
  const runtime::EngineOptions& options = self.engine->options();
  py::dict result;
  result["isa"] = options.device == "cpu" ? ops::resolve_isa(options.isa) : "cuda";
  result["tp"] = options.tp;
  result["slots"] = runtime::slots_in_use(options);
  result["threads_per_rank"] = runtime::threads_per_rank(options);
  result["oversubscribed"] = runtime::oversubscribed(options);
  result["homes"] = self.engine->homes();
  return result;
}

void close(PyEngine& self) {
  {
    const py::gil_scoped_release release;
    self.engine->close();
  }
  self.embedding = py::none();
}

// A PyEngine that Python drops closes without the GIL: its scheduler may be in a step, and others want to run meanwhile.
struct Deleter {
  void operator()(PyEngine* self) const {
    {
      const py::gil_scoped_release release;
      self->engine.reset();
    }
    delete self;
  }
};

}  // namespace

void bind_engine(py::module_& module) {
  py::class_<PyEngine, std::unique_ptr<PyEngine, Deleter>>(module, "Engine",
                                                           "One model on its ranks: load, finish_loading, submit.")
      .def(py::init([](const model::ModelConfig& config, const runtime::EngineOptions& options) {
             return std::unique_ptr<PyEngine, Deleter>(make_engine(config, options).release());
           }),
           py::arg("config"), py::arg("options"))
      .def("set_matrix", &set_matrix, py::arg("rank"), py::arg("name"), py::arg("parts"))
      .def("set_vector", &set_vector, py::arg("rank"), py::arg("name"), py::arg("values"))
      .def("set_embedding", &set_embedding, py::arg("table"), py::arg("dtype"))
      .def("make_random_matrix", &make_random_matrix, py::arg("rank"), py::arg("name"), py::arg("dtype"), py::arg("seed"))
      .def("make_random_embedding", &make_random_embedding, py::arg("seed"))
      .def("finish_loading", &finish_loading)
      .def(
          "submit",
          [](PyEngine& self, const Ids& prompt_ids, int max_new_tokens, std::vector<int32_t> stop_ids, bool keep_logits,
             float temperature, int top_k, float top_p, uint64_t seed) {
            return submit(self, prompt_ids, max_new_tokens, std::move(stop_ids), keep_logits, {temperature, top_k, top_p, seed});
          },
          py::arg("prompt_ids").noconvert(), py::arg("max_new_tokens"), py::arg("stop_ids") = py::tuple(),
          py::arg("keep_logits") = false, py::arg("temperature") = 0.0f, py::arg("top_k") = 0, py::arg("top_p") = 1.0f,
          py::arg("seed") = 0)
      .def("submit_all", &submit_all, py::arg("prompts").noconvert(), py::arg("max_new_tokens"), py::arg("keep_logits") = false)
      .def("stats", &stats)
      .def("reset_peaks", [](PyEngine& self) { self.engine->reset_peaks(); })
      .def("memory", &memory)
      .def(
          "step_bytes", [](const PyEngine& self, int rows, int context) { return self.engine->step_bytes(rows, context); },
          py::arg("rows"), py::arg("context"))
      .def("facts", &facts)
      .def("close", &close);
}

}  // namespace paceline::bindings
