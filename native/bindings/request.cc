#include "bindings/request.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "bindings/bindings.h"

namespace paceline::bindings {

namespace py = pybind11;

namespace {

using Nanoseconds = std::chrono::nanoseconds;

constexpr Nanoseconds kSignalCheck = std::chrono::milliseconds(100);  // a waiting main thread notices Ctrl-C within this
constexpr double kForever = 1e9;                                      // seconds

const char* state_name(runtime::RequestState state) {
  switch (state) {
    case runtime::RequestState::kWaiting:
      return "waiting";
    case runtime::RequestState::kPrefill:
      return "prefill";
    case runtime::RequestState::kDecode:
      return "decode";
    case runtime::RequestState::kDone:
      break;
  }
  return "done";
}

std::optional<const char*> reason_name(runtime::FinishReason reason) {
  switch (reason) {
    case runtime::FinishReason::kLength:
      return "length";
    case runtime::FinishReason::kStop:
      return "stop";
    case runtime::FinishReason::kCancelled:
      return "cancelled";
    case runtime::FinishReason::kClosed:
      return "closed";
    case runtime::FinishReason::kError:
      return "error";
    case runtime::FinishReason::kNone:
      break;
  }
  return std::nullopt;
}

// Calls attempt(slice) without the GIL until it returns true or the time is over, looking for signals in between.
template <typename Attempt>
void wait_in_slices(double timeout_s, Attempt attempt) {
  check<ConfigError>(timeout_s >= 0, "timeout_s = ", timeout_s, ": it must be at least 0");
  const auto deadline = std::chrono::steady_clock::now() + Nanoseconds(static_cast<int64_t>(std::min(timeout_s, kForever) * 1e9));
  while (true) {
    bool done = false;
    bool late = false;
    {
      const py::gil_scoped_release release;
      const auto left = std::chrono::duration_cast<Nanoseconds>(deadline - std::chrono::steady_clock::now());
      late = left <= kSignalCheck;
      done = attempt(std::clamp(left, Nanoseconds(0), kSignalCheck));
    }
    if (done || late) return;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

bool wait(const PyRequest& self, double timeout_s) {
  bool done = false;
  wait_in_slices(timeout_s, [&](Nanoseconds slice) { return done = self.request->wait(slice); });
  return done;
}

size_t wait_tokens(const PyRequest& self, size_t seen, double timeout_s) {
  size_t tokens = 0;
  wait_in_slices(timeout_s, [&](Nanoseconds slice) {
    tokens = self.request->wait_tokens(seen, slice);
    return tokens > seen || self.request->state() == runtime::RequestState::kDone;
  });
  return tokens;
}

py::array_t<float> logits(const PyRequest& self) {
  check(self.request->spec().keep_logits, "request ", self.request->id(), " was not asked to keep its logits");
  auto values = std::make_unique<std::vector<float>>();
  {
    const py::gil_scoped_release release;
    *values = self.request->logits();
  }
  const auto width = static_cast<py::ssize_t>(self.vocab_size);
  const auto rows = static_cast<py::ssize_t>(values->size()) / width;
  const float* data = values->data();
  const py::capsule owner(values.release(), [](void* pointer) { delete static_cast<std::vector<float>*>(pointer); });
  return py::array_t<float>({rows, width}, data, owner);
}

std::optional<std::string> error(const PyRequest& self) {
  if (self.request->finish_reason() != runtime::FinishReason::kError) return std::nullopt;
  return self.request->error();
}

}  // namespace

void bind_request(py::module_& module) {
  py::class_<PyRequest>(module, "Request", "A handle. Every method may be called from any thread; waiting releases the GIL.")
      .def_property_readonly("id", [](const PyRequest& self) { return self.request->id(); })
      .def_property_readonly("state", [](const PyRequest& self) { return state_name(self.request->state()); })
      .def_property_readonly("finish_reason", [](const PyRequest& self) { return reason_name(self.request->finish_reason()); })
      .def_property_readonly("error", &error)
      .def_property_readonly("submitted_ns", [](const PyRequest& self) { return self.request->submitted_ns(); })
      .def_property_readonly("admitted_ns", [](const PyRequest& self) { return self.request->admitted_ns(); })
      .def_property_readonly("finished_ns", [](const PyRequest& self) { return self.request->finished_ns(); })
      .def("wait", &wait, py::arg("timeout_s"))
      .def("wait_tokens", &wait_tokens, py::arg("seen"), py::arg("timeout_s"))
      .def("tokens", [](const PyRequest& self) { return self.request->tokens(); })
      .def("token_times_ns", [](const PyRequest& self) { return self.request->token_times_ns(); })
      .def("logits", &logits)
      .def("cancel", [](const PyRequest& self) { self.request->cancel(); });
}

}  // namespace paceline::bindings
