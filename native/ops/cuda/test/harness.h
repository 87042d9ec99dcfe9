// What the checks of the CUDA backend share: random data, arrays on the device with guard bytes around them, and how results
// compare.
#pragma once

#include <cmath>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "ops/cpu/backend.h"
#include "ops/cuda/backend.h"

namespace paceline::ops::cuda_test {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float normal(float scale = 1.0f) { return scale * std::normal_distribution<float>()(engine_); }
  float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(engine_); }
  uint8_t code() {  // e4m3, never NaN
    const int code = below(254);
    return static_cast<uint8_t>(code < 127 ? code : code + 1);
  }
  std::vector<float> floats(size_t count, float scale = 1.0f) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(scale);
    return values;
  }
  std::vector<uint16_t> bf16(size_t count, float scale = 1.0f) {
    std::vector<uint16_t> values(count);
    for (uint16_t& value : values) value = float_to_bf16(normal(scale));
    return values;
  }

 private:
  std::mt19937 engine_;
};

// An array in a backend's memory between guard bytes; new arrays are poisoned, so that a result nobody wrote is a NaN.
template <class T>
class Array {
 public:
  Array(Ops& ops, size_t count) : ops_(&ops), count_(count), buffer_(ops.allocate(count * sizeof(T) + 2 * kGuard)) {
    const std::vector<uint8_t> poison(buffer_->size(), kPoison);
    ops.upload(buffer_->data(), poison.data(), poison.size());
    ops.synchronize();
  }
  Array(Ops& ops, const std::vector<T>& values) : Array(ops, values.size()) { set(values); }

  T* data() { return reinterpret_cast<T*>(static_cast<uint8_t*>(buffer_->data()) + kGuard); }
  void set(const std::vector<T>& values) {
    ops_->upload(data(), values.data(), values.size() * sizeof(T));
    ops_->synchronize();
  }
  std::vector<T> get() {
    std::vector<T> values(count_);
    ops_->download(values.data(), data(), count_ * sizeof(T));
    ops_->synchronize();
    return values;
  }
  bool intact() {
    std::vector<uint8_t> all(buffer_->size());
    ops_->download(all.data(), buffer_->data(), all.size());
    ops_->synchronize();
    const auto clean = [](uint8_t byte) { return byte == kPoison; };
    return std::all_of(all.begin(), all.begin() + kGuard, clean) && std::all_of(all.end() - kGuard, all.end(), clean);
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr uint8_t kPoison = 0xff;  // a NaN as float32 and as bfloat16

  Ops* ops_;
  size_t count_;
  std::unique_ptr<Buffer> buffer_;
};

inline float value_of(float value) { return value; }
inline float value_of(uint16_t value) { return bf16_to_float(value); }

// |got - wanted| / |wanted| in the Euclidean norm; NaN where one of them is.
template <class T>
double distance(const std::vector<T>& got, const std::vector<T>& wanted) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double w = value_of(wanted[i]), d = value_of(got[i]) - w;
    difference += d * d;
    norm += w * w;
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1.0));
}

template <class T>
bool same_bits(const T* a, const T* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(T)) == 0;
}

class Report {
 public:
  template <class... Parts>
  void expect(bool holds, const Parts&... parts) {
    ++checks_;
    if (holds) return;
    ++failures_;
    std::cout << "FAILED  " << concat(parts...) << std::endl;
  }
  template <class T, class... Parts>
  void close(const std::vector<T>& got, const std::vector<T>& wanted, double tolerance, const Parts&... parts) {
    const double found = distance(got, wanted);
    expect(got.size() == wanted.size() && found <= tolerance, parts..., ": relative distance ", found, ", at most ",
           tolerance);  // NaN fails
  }
  void done(const std::string& name) {
    std::cout << name << ": " << checks_ << " checks, " << failures_ << " failed" << std::endl;
    failed_ = failed_ || failures_ > 0;
    checks_ = failures_ = 0;
  }
  bool failed() const { return failed_; }

 private:
  int checks_ = 0, failures_ = 0;
  bool failed_ = false;
};

struct Backends {
  Ops& gpu;
  Ops& cpu;
  Report& report;
  bool quick;  // fewer sizes, for tools that slow everything down
};

void test_linear(Backends on);
void test_rows(Backends on);
void test_attention(Backends on);
void test_delta_net(Backends on);
void time_model(int device, int layers);  // the 27B shape

double probe_read_bandwidth();  // GB/s over 4 GiB, of the current device

}  // namespace paceline::ops::cuda_test
