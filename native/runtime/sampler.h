// The choice of the next token from a row of logits, reproducible for a seed wherever the row was computed.
#pragma once

#include <cstdint>
#include <span>

namespace paceline::runtime {

struct Sampling {
  float temperature = 0;  // 0: greedy
  int top_k = 0;          // 0: all
  float top_p = 1;        // smallest set of the likeliest tokens with at least this much probability
  uint64_t seed = 0;

  bool greedy() const { return temperature == 0; }
};

// The token drawn for the `index`-th new token of a request. A function of its arguments alone. Not for greedy sampling.
int32_t sample(std::span<const float> logits, const Sampling& sampling, uint64_t index);

}  // namespace paceline::runtime
