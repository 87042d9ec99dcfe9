// What the kernel checks share: random data, outputs with guard bytes around them, and one line of report an operation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "base/types.h"
#include "ops/cpu/backend.h"

namespace paceline::ops::cpu_test {

constexpr double kRounding = 0x1p-8;  // one rounding to bfloat16, relative
constexpr double kProduct = 2e-6;     // float32 sums in another order: some units of 2^-24 times the root of their length

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<uint32_t>(bound)); }
  std::vector<float> floats(int64_t count, float scale = 1.0f, float middle = 0.0f) {
    std::vector<float> values(count);
    for (float& value : values) value = middle + scale * normal_(engine_);
    return values;
  }
  std::vector<uint16_t> bf16(int64_t count, float scale = 1.0f) {
    std::vector<uint16_t> values;
    for (const float value : floats(count, scale)) values.push_back(float_to_bf16(value));
    return values;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

// An output of exactly its own size between guard bytes; poisoned, so that an element nobody wrote is a NaN.
template <class T>
class Output {
 public:
  explicit Output(int64_t count) : count_(count), memory_(count * sizeof(T) + 2 * kGuard, kPoison) {}
  T* data() { return reinterpret_cast<T*>(memory_.data() + kGuard); }
  std::vector<T> get() { return {data(), data() + count_}; }
  bool intact() const {
    const auto clean = [](uint8_t byte) { return byte == kPoison; };
    return std::all_of(memory_.begin(), memory_.begin() + kGuard, clean) &&
           std::all_of(memory_.end() - kGuard, memory_.end(), clean);
  }

 private:
  static constexpr int64_t kGuard = 256;
  static constexpr uint8_t kPoison = 0xff;
  int64_t count_;
  std::vector<uint8_t> memory_;
};

inline double value_of(float value) { return value; }
inline double value_of(uint16_t value) { return bf16_to_float(value); }

template <class T>
bool same_bits(const T* a, const T* b, int64_t count) {
  return std::memcmp(a, b, count * sizeof(T)) == 0;
}

class Report {
 public:
  void expect(bool holds, const char* what) {
    ++checks_;
    if (!holds && failures_++ < kShown) std::printf("  MISS  %s\n", what);
  }
  void error(double found, double allowed, const char* what) {  // NaN fails
    if (!(found <= worst_)) worst_ = found;
    expect(found <= allowed, what);
  }
  // |got - wanted| / |wanted| over all elements, in the Euclidean norm.
  template <class T>
  void distance(const T* got, const std::vector<double>& wanted, double allowed, const char* what) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      difference += (value_of(got[i]) - wanted[i]) * (value_of(got[i]) - wanted[i]);
      norm += wanted[i] * wanted[i];
    }
    error(std::sqrt(difference / std::max(norm, 1e-60)), allowed, what);
  }
  // Each element within one rounding to bfloat16, and a little: float32 may fall on the other side of the middle of two.
  void rounded(const uint16_t* got, const std::vector<double>& wanted, const char* what) {
    for (size_t i = 0; i < wanted.size(); ++i)
      error(std::abs(value_of(got[i]) - wanted[i]) / std::max(std::abs(wanted[i]), 1e-28), 1.001 * kRounding, what);
  }
  void done(const char* operation) {
    std::printf("%-22s %-6s worst error %.2e, %d checks, %d missed\n", operation, failures_ == 0 ? "ok" : "FAILED", worst_,
                checks_, failures_);
    std::fflush(stdout);
    failed_ = failed_ || failures_ > 0;
    checks_ = failures_ = 0;
    worst_ = 0;
  }
  bool failed() const { return failed_; }

 private:
  static constexpr int kShown = 5;  // misses of an operation that are told
  int checks_ = 0, failures_ = 0;
  double worst_ = 0;
  bool failed_ = false;
};

void check_linear(Ops& ops, Report& report);
void check_rows(Ops& ops, Report& report);
void check_attention(Ops& ops, Report& report);
void check_delta_net(Ops& ops, Report& report);

}  // namespace paceline::ops::cpu_test
