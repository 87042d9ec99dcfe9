// Holds every operation of the CUDA backend against the CPU backend, and times the 27B shape.
//   paceline_cuda_test [check | quick | speed [layers]]
#include <cstdlib>
#include <iostream>

#include "ops/cuda/test/harness.h"

namespace {

int check_all(bool quick) {
  using namespace paceline::ops;
  const auto gpu = make_cuda_ops(0);
  const auto cpu = make_cpu_ops({.isa = "auto", .threads = 4, .oversubscribed = false});
  cuda_test::Report report;
  const cuda_test::Backends on = {*gpu, *cpu, report, quick};
  cuda_test::test_rows(on);
  cuda_test::test_linear(on);
  cuda_test::test_delta_net(on);
  cuda_test::test_attention(on);
  std::cout << (report.failed() ? "FAILED" : "passed") << std::endl;
  return report.failed() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "check";
  try {
    for (const auto& device : paceline::ops::cuda_devices()) {
      std::cout << "cuda:" << device.index << " is " << device.name << ", compute capability " << device.capability << std::endl;
    }
    if (what == "check" || what == "quick") return check_all(what == "quick");
    if (what == "speed") {
      paceline::ops::cuda_test::time_model(0, argc > 2 ? std::atoi(argv[2]) : 64);
      return 0;
    }
    std::cerr << "paceline_cuda_test [check | quick | speed [layers]]: \"" << what << "\" is none of them" << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
  }
  return 2;
}
