// Which backend and which device an engine runs on, and what they have to offer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/options.h"
#include "runtime/rank_group.h"

namespace paceline::runtime {

std::vector<std::string> backends();  // compiled in: "cpu", "cuda"

struct Device {      // that an engine may be told to use
  std::string name;  // "cuda:0"
  std::string model;
  int capability;  // 10 * major + minor
  uint64_t memory;
};

std::vector<Device> devices();  // of backends other than the CPU; empty where there is no driver

// Throws ConfigError naming what `device` may be, for what this build or this machine has not, and for more devices than one.
void validate_device(const EngineOptions& options);

bool on_cpu(const EngineOptions& options);

// Bytes that the device of the options has left for this process; UINT64_MAX where nobody says.
uint64_t available_memory(const EngineOptions& options);

// The backend that the options name; `homes` as homes_of() has them.
OpsFactory backend_of(const EngineOptions& options, const std::vector<Processors>& homes);

}  // namespace paceline::runtime
