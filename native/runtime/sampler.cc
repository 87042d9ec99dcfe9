#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace paceline::runtime {
namespace {

// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30u)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27u)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31u);
}

// Uniform in [0, 1), a function of (seed, index): a generator that has no state to carry.
double uniform(uint64_t seed, uint64_t index) { return static_cast<double>(mix(mix(seed) ^ mix(~index)) >> 11u) * 0x1p-53; }

// The likeliest candidates in order (larger logit first, lower id among equals), sorted piece by piece as far as they are asked
// for.
class Ranking {
 public:
  explicit Ranking(std::span<const float> logits) : logits_(logits), order_(logits.size()) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  size_t size() const { return order_.size(); }

  int32_t at(size_t rank) {
    while (rank >= sorted_) extend();
    return order_[rank];
  }

 private:
  static constexpr size_t kFirstPiece = 256;

  void extend() {
    const size_t end = std::min(order_.size(), std::max(kFirstPiece, 4 * sorted_));
    const auto before = [this](int32_t a, int32_t b) {
      const float x = logits_[static_cast<size_t>(a)];
      const float y = logits_[static_cast<size_t>(b)];
      return x > y || (x == y && a < b);
    };
    std::partial_sort(order_.begin() + static_cast<ptrdiff_t>(sorted_), order_.begin() + static_cast<ptrdiff_t>(end),
                      order_.end(), before);
    sorted_ = end;
  }

  std::span<const float> logits_;
  std::vector<int32_t> order_;
  size_t sorted_ = 0;
};

}  // namespace

int32_t sample(std::span<const float> logits, const Sampling& sampling, uint64_t index) {
  Ranking ranking(logits);
  const size_t most = sampling.top_k > 0 ? std::min(ranking.size(), static_cast<size_t>(sampling.top_k)) : ranking.size();
  const double largest = logits[static_cast<size_t>(ranking.at(0))];
  const auto weight = [&](float logit) {
    return std::exp((static_cast<double>(logit) - largest) / static_cast<double>(sampling.temperature));
  };

  double total = 0;
  if (most == ranking.size()) {
    for (const float logit : logits) total += weight(logit);
  } else {
    for (size_t rank = 0; rank < most; ++rank) total += weight(logits[static_cast<size_t>(ranking.at(rank))]);
  }

  // Keep the likeliest until they hold top_p of the total, then draw among them; both sums run in the same order.
  const double wanted = static_cast<double>(sampling.top_p) * total;
  double kept = total;
  size_t last = most;
  if (sampling.top_p < 1) {
    kept = 0;
    for (last = 0; last < most && (last == 0 || kept < wanted); ++last)
      kept += weight(logits[static_cast<size_t>(ranking.at(last))]);
  }
  double rest = uniform(sampling.seed, index) * kept;
  for (size_t rank = 0; rank + 1 < last; ++rank) {
    const int32_t token = ranking.at(rank);
    rest -= weight(logits[static_cast<size_t>(token)]);
    if (rest < 0) return token;
  }
  return ranking.at(last - 1);
}

}  // namespace paceline::runtime
