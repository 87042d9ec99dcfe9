// One step, as the runtime describes it to the ranks, and what they answer. Host memory.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::model {

struct Step {                     // the same for every rank
  std::vector<int32_t> slot;      // [rows]
  std::vector<int32_t> position;  // [rows]
  std::vector<int32_t> token;     // [rows]
  int chunked = 0;                // the first so many rows belong to long prompts
  std::vector<int32_t> wanted;    // rows whose next token is asked for, ascending, at most one a slot
  std::vector<uint8_t> keep;      // [wanted]: whether the whole row of logits comes back, too

  int rows() const { return static_cast<int>(slot.size()); }
  void clear() {
    for (auto* part : {&slot, &position, &token, &wanted}) part->clear();
    keep.clear();
    chunked = 0;
  }
};

struct Best {  // the largest logit of a row over a rank's part of the vocabulary, or over all of it
  float value;
  int32_t token;  // the lowest id where several are largest
};

struct StepOutput {
  std::vector<std::vector<Best>> best;  // [ranks][wanted]; empty for a rank without vocabulary rows
  std::vector<float> logits;            // [wanted, vocab_size], filled where `keep` says so
};

}  // namespace paceline::model
