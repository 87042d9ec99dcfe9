// The CPU backend of the operations: how to make one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/nodes.h"
#include "ops/ops.h"

namespace paceline::ops {

struct CpuOptions {
  std::string isa = "auto";            // a name of cpu_isa_paths(), or "auto": the widest that this processor runs
  int threads = 1;                     // threads of this rank, the caller among them
  bool oversubscribed = false;         // never spin while waiting: the process has more rank threads than processors
  std::vector<Processors> homes = {};  // [threads], where each stays; empty: anywhere
};

struct IsaPath {
  std::string name;  // "amx", "avx512_bf16", "avx512", "avx2" or "portable"
  bool usable;       // whether this processor runs it
};

// The kernel paths compiled in, widest first.
std::vector<IsaPath> cpu_isa_paths();

// The path that `isa` stands for on this processor ("auto" included). Throws ConfigError for an unknown or unusable name.
std::string resolve_isa(const std::string& isa);

// One rank's backend. It owns the rank's thread team; the thread that calls its operations works with it, one call at a time.
// All its memory is ordinary host memory, so pointers of other ranks may be read directly.
std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options);

}  // namespace paceline::ops
