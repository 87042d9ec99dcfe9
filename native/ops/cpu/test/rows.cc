// What works row by row: norms, SwiGLU, embedding, gather, argmax, partial sums; ragged widths included.
#include <limits>

#include "ops/cpu/test/harness.h"

namespace paceline::ops::cpu_test {
namespace {

constexpr int kWidths[] = {1, 3, 15, 16, 17, 64, 127, 3000};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

double silu(double x) { return x / (1.0 + std::exp(-x)); }

void check_rms_norm(Ops& ops, Report& report, Random& random) {
  for (const int width : kWidths) {
    constexpr int kRows = 5;
    constexpr double kEps = 1e-6;
    const std::vector<float> x = random.floats(kRows * width, 3.0f), weight = random.floats(width);
    Output<uint16_t> out(kRows * width), alone(width);
    ops.rms_norm(x.data(), weight.data(), static_cast<float>(kEps), kRows, width, out.data());
    std::vector<double> wanted;
    for (int row = 0; row < kRows; ++row) {
      double squares = 0;
      for (int i = 0; i < width; ++i) squares += static_cast<double>(x[row * width + i]) * x[row * width + i];
      for (int i = 0; i < width; ++i) wanted.push_back(x[row * width + i] / std::sqrt(squares / width + kEps) * weight[i]);
    }
    report.rounded(out.data(), wanted, "a norm is off");
    report.expect(out.intact(), "bytes around the output were written");
    ops.rms_norm(x.data() + 4 * width, weight.data(), static_cast<float>(kEps), 1, width, alone.data());
    report.expect(same_bits(alone.data(), out.data() + 4 * width, width), "a row differs from the row alone");
  }
  report.done("rms_norm");
}

void check_swiglu(Ops& ops, Report& report, Random& random) {
  for (const int width : kWidths) {
    constexpr int kRows = 3;
    const std::vector<float> gate_up = random.floats(kRows * 2 * width, 6.0f);
    Output<uint16_t> out(kRows * width);
    ops.swiglu(gate_up.data(), kRows, width, out.data());
    std::vector<double> wanted;
    for (int row = 0; row < kRows; ++row) {
      const float* gate = gate_up.data() + row * 2 * width;
      for (int i = 0; i < width; ++i) wanted.push_back(silu(gate[i]) * gate[width + i]);
    }
    report.rounded(out.data(), wanted, "silu(gate) * up is off");
    report.expect(out.intact(), "bytes around the output were written");
  }
  std::vector<float> ends = {0.0f, -0.0f, 1e-40f, 3e38f, -3e38f, kInfinity, std::numeric_limits<float>::quiet_NaN()};
  for (int i = -480; i <= 480; ++i) ends.push_back(static_cast<float>(i) / 4.0f);
  const int width = static_cast<int>(ends.size());
  ends.resize(2 * width, 1.0f);
  Output<uint16_t> out(width);
  ops.swiglu(ends.data(), 1, width, out.data());
  for (int i = 0; i < width; ++i) {  // below 1e-36 the exponential may have vanished already
    const double wanted = silu(ends[i]), found = value_of(out.data()[i]);
    report.expect(std::isfinite(wanted) ? std::abs(found - wanted) <= kRounding * std::abs(wanted) + 1e-36
                                        : std::isnan(wanted) == std::isnan(found) && std::isinf(wanted) == std::isinf(found),
                  "silu is off at an end of its range");
  }
  report.done("swiglu");
}

void check_embed_and_gather(Ops& ops, Report& report, Random& random) {
  constexpr int kVocabulary = 50, kWidth = 30;
  const std::vector<int32_t> token = {0, 49, 7, 7, 31}, zero(token.size(), 0);
  const int count = static_cast<int>(token.size());
  const std::vector<uint16_t> table = random.bf16(kVocabulary * kWidth);
  std::vector<uint16_t> half;  // 1, 1.25, 1.5 and 1.75
  for (int i = 0; i < kVocabulary * kWidth; ++i) half.push_back(static_cast<uint16_t>(0x3c00 + (i % 4) * 0x100));
  const auto embedded = [&](const void* data, DType dtype, auto&& wanted) {
    Output<float> hidden(count * kWidth);
    ops.embed({count, zero.data(), zero.data(), token.data()}, data, dtype, kWidth, hidden.data());
    for (int i = 0; i < count * kWidth; ++i)
      report.expect(hidden.data()[i] == wanted(token[i / kWidth] * kWidth + i % kWidth), "an embedded number is another");
    report.expect(hidden.intact(), "bytes around the output were written");
    return hidden.get();
  };
  embedded(half.data(), DType::kF16, [](int at) { return 1.0f + static_cast<float>(at % 4) / 4.0f; });
  const std::vector<float> hidden = embedded(table.data(), DType::kBF16, [&](int at) { return bf16_to_float(table[at]); });
  report.done("embed");

  const std::vector<int32_t> index = {4, 0, 2};
  Output<float> out(3 * kWidth);
  ops.gather(hidden.data(), index.data(), 3, kWidth, out.data());
  for (int i = 0; i < 3; ++i)
    report.expect(same_bits(out.data() + i * kWidth, hidden.data() + index[i] * kWidth, kWidth), "a gathered row is another");
  report.expect(out.intact(), "bytes around the output were written");
  report.done("gather");
}

void check_argmax(Ops& ops, Report& report, Random& random) {
  for (const int width : {1, 2, 31, 512, 2047, 2048, 2049, 20011}) {
    for (const int levels : {3, 1000, 1000000}) {  // few levels: many ties
      constexpr int kRows = 3;
      const int ld = width + 5;
      std::vector<float> x(kRows * ld, 1e30f);  // what stands between the rows must not be seen
      for (int i = 0; i < kRows * width; ++i)
        x[i / width * ld + i % width] = static_cast<float>(random.below(2 * levels) - levels);
      Output<float> value(kRows);
      Output<int32_t> index(kRows);
      ops.argmax(x.data(), kRows, width, ld, value.data(), index.data());
      report.expect(value.intact() && index.intact(), "bytes around the output were written");
      for (int row = 0; row < kRows; ++row) {
        const auto first = x.begin() + row * ld, largest = std::max_element(first, first + width);  // the first of equals
        report.expect(index.data()[row] == largest - first && value.data()[row] == *largest, "another number is the largest");
      }
    }
    std::vector<float> x(width, -kInfinity);
    float value = 0;
    int32_t index = -1;
    ops.argmax(x.data(), 1, width, width, &value, &index);
    report.expect(index == 0 && value == -kInfinity, "of equal -infinities the first is the largest");
    x[width - 1] = std::numeric_limits<float>::quiet_NaN();
    x[0] = width > 1 ? kInfinity : x[0];
    ops.argmax(x.data(), 1, width, width, &value, &index);
    report.expect(index == width - 1 && std::isnan(value), "NaN counts as the largest");
  }
  report.done("argmax");
}

void check_add_partials(Ops& ops, Report& report, Random& random) {
  for (const int count : {1, 17, 1000, 40001}) {
    const std::vector<float> start = random.floats(count), a = random.floats(count, 10.0f), b = random.floats(count, 100.0f);
    const float* const partials[] = {a.data(), b.data()};
    Output<float> target(count);
    std::copy(start.begin(), start.end(), target.data());
    ops.add_partials(partials, count, target.data());
    for (int i = 0; i < count; ++i) report.expect(target.data()[i] == (start[i] + a[i]) + b[i], "a sum is in another order");
    report.expect(target.intact(), "bytes around the output were written");
  }
  report.done("add_partials");
}

}  // namespace

void check_rows(Ops& ops, Report& report) {
  Random random(2);
  check_rms_norm(ops, report, random);
  check_swiglu(ops, report, random);
  check_embed_and_gather(ops, report, random);
  check_argmax(ops, report, random);
  check_add_partials(ops, report, random);
}

}  // namespace paceline::ops::cpu_test
