// Every operation of the CPU backend against a plain double-precision reference, without Python: for processors that are reached
// by cross-compiling alone. Exits 1 where anything is missed.
//
//   kernel_check [PATH]    a name of cpu_isa_paths(), "auto", or nothing for every path that this processor runs
#include "base/cpu.h"
#include "base/error.h"
#include "ops/cpu/test/harness.h"

namespace paceline::ops::cpu_test {
namespace {

constexpr int kThreads = 2;  // operations divide their work, and the division must not show

void check_path(const std::string& name, Report& report) {
  const auto ops = make_cpu_ops({.isa = name, .threads = kThreads, .oversubscribed = available_cpus() < kThreads});
  std::printf("path %s\n", name.c_str());
  check_linear(*ops, report);
  check_rows(*ops, report);
  check_attention(*ops, report);
  check_delta_net(*ops, report);
}

int run(int count, char** values) {
  check<ConfigError>(count <= 2, "at most one kernel path is expected, got ", count - 1, " arguments");
  Report report;
  if (count == 2) {
    check_path(resolve_isa(values[1]), report);
  } else {
    for (const IsaPath& path : cpu_isa_paths()) {
      if (path.usable) check_path(path.name, report);
    }
  }
  std::printf("kernel_check: %s\n", report.failed() ? "FAILED" : "all as it should be");
  return report.failed() ? 1 : 0;
}

}  // namespace
}  // namespace paceline::ops::cpu_test

int main(int count, char** values) {
  try {
    return paceline::ops::cpu_test::run(count, values);
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "kernel_check: %s\n", error.what());
    return 2;
  }
}
