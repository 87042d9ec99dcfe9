// Products: bfloat16, FP8 with block scales, both together; every width, ragged sizes, a row alone and in a batch.
#include <limits>

#include "ops/cpu/test/harness.h"

namespace paceline::ops::cpu_test {
namespace {

constexpr int kMostRows = 40;
constexpr int kWidths[] = {1, 2, 3, 4, 8, 16, 17, 40};

double code_value(int code) {  // E4M3 from its definition
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if ((code & 127) == 127) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code < 128 ? magnitude : -magnitude;
}

struct Part {  // a LinearPart with what it points to, and its true values
  LinearPart part;
  std::vector<uint16_t> wide;
  std::vector<uint8_t> codes;
  std::vector<float> scale;
  std::vector<double> values;  // [rows, cols]
};

Part bf16_part(Random& random, int64_t rows, int64_t cols) {
  Part made{};
  made.wide = random.bf16(rows * cols, 1.0f / std::sqrt(static_cast<float>(cols)));
  for (const uint16_t bits : made.wide) made.values.push_back(bf16_to_float(bits));
  made.part = {made.wide.data(), DType::kBF16, rows, cols, 2 * cols, nullptr, 0, 0, 0};
  return made;
}

// A slice that starts at (row, col) of a tensor whose scales differ from block to block.
Part fp8_part(Random& random, int64_t rows, int64_t cols, int64_t row = 0, int64_t col = 0) {
  Part made{};
  const int64_t scale_rows = (row + rows + 127) / 128, scale_cols = (col + cols + 127) / 128;
  for (int64_t i = 0; i < scale_rows * scale_cols; ++i) made.scale.push_back(std::ldexp(1.0f + random.below(100) / 100.0f, -8));
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t k = 0; k < cols; ++k) {
      const int code = random.below(127) + 128 * random.below(2);  // never NaN
      made.codes.push_back(static_cast<uint8_t>(code));
      made.values.push_back(code_value(code) * made.scale[(row + n) / 128 * scale_cols + (col + k) / 128]);
    }
  }
  made.part = {made.codes.data(), DType::kF8E4M3, rows, cols, cols, made.scale.data(), scale_cols, row, col};
  return made;
}

void check_product(Ops& ops, Report& report, Random& random, const std::vector<Part>& parts) {
  std::vector<LinearPart> given;
  std::vector<double> values;
  for (const Part& part : parts) {
    given.push_back(part.part);
    values.insert(values.end(), part.values.begin(), part.values.end());
  }
  const auto weight = ops.pack(given);
  const int64_t outputs = weight->rows(), cols = weight->cols(), ld = outputs + 3;
  const std::vector<uint16_t> x = random.bf16(kMostRows * cols);
  std::vector<double> wanted(kMostRows * outputs);
  for (int64_t row = 0; row < kMostRows; ++row) {
    for (int64_t n = 0; n < outputs; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < cols; ++k) sum += bf16_to_float(x[row * cols + k]) * values[n * cols + k];
      wanted[row * outputs + n] = sum;
    }
  }
  std::vector<float> alone(kMostRows * outputs);
  for (int64_t row = 0; row < kMostRows; ++row)
    ops.linear(*weight, x.data() + row * cols, 1, alone.data() + row * outputs, static_cast<int>(outputs));
  for (const int rows : kWidths) {
    const int64_t first = kMostRows - rows;  // so that a row stands elsewhere in each batch
    Output<float> y(rows * ld);
    ops.linear(*weight, x.data() + first * cols, rows, y.data(), static_cast<int>(ld));
    report.expect(y.intact(), "bytes around y were written");
    std::vector<float> got;
    for (int64_t row = 0; row < rows; ++row) {
      got.insert(got.end(), y.data() + row * ld, y.data() + row * ld + outputs);
      report.expect(std::isnan(y.data()[row * ld + outputs]), "a column between the rows of y was written");
    }
    report.distance(got.data(), {wanted.begin() + first * outputs, wanted.end()}, kProduct, "a product is off");
    report.expect(same_bits(got.data(), alone.data() + first * outputs, rows * outputs), "a row differs from the row alone");
  }
}

// One code a row, times one, from every place of a block: subnormals, both zeros and NaN too.
void check_codes(Ops& ops, Report& report) {
  const uint16_t one = float_to_bf16(1.0f);
  const std::vector<float> scale(2, 1.0f);
  for (int turn = 0; turn < 32; ++turn) {
    std::vector<uint8_t> codes;
    for (int i = 0; i < 256; ++i) codes.push_back(static_cast<uint8_t>(i + turn));
    const LinearPart part = {codes.data(), DType::kF8E4M3, 256, 1, 1, scale.data(), 1, 0, 0};
    Output<float> y(256);
    ops.linear(*ops.pack({&part, 1}), &one, 1, y.data(), 256);
    for (int i = 0; i < 256; ++i) {
      const double wanted = code_value(codes[i]), found = y.data()[i];
      report.expect(std::isnan(wanted) ? std::isnan(found) : found == wanted, "a code is decoded to another number");
    }
  }
}

// 0 * NaN is NaN: a NaN code reaches its own output, and no other, in every width.
void check_nan_code(Ops& ops, Report& report, Random& random) {
  Part part = fp8_part(random, 45, 200);
  part.codes[22 * 200 + 7] = 0x7f;
  part.part.data = part.codes.data();
  const auto weight = ops.pack({&part.part, 1});
  const std::vector<uint16_t> x(kMostRows * 200, 0);
  for (const int rows : kWidths) {
    Output<float> y(rows * 45);
    ops.linear(*weight, x.data(), rows, y.data(), 45);
    for (int i = 0; i < rows * 45; ++i) report.expect(std::isnan(y.data()[i]) == (i % 45 == 22), "a NaN code went astray");
  }
}

}  // namespace

void check_linear(Ops& ops, Report& report) {
  Random random(1);
  const std::vector<std::pair<std::vector<int64_t>, int64_t>> shapes = {{{32}, 32},    {{64, 32, 32}, 64}, {{1}, 1},
                                                                        {{33, 7}, 50}, {{48, 48}, 160},    {{70, 30}, 515}};
  for (const auto& [outputs, cols] : shapes) {
    std::vector<Part> parts;
    for (const int64_t rows : outputs) parts.push_back(bf16_part(random, rows, cols));
    check_product(ops, report, random, parts);
  }
  report.done("linear bf16");

  check_codes(ops, report);
  report.done("linear fp8: 256 codes");

  constexpr int64_t kSlices[][4] = {// rows, cols, first row, first column
                                    {128, 128, 0, 0},  {1, 1, 0, 0},       {45, 200, 0, 0},  {150, 130, 0, 0},
                                    {70, 77, 100, 50}, {31, 129, 17, 255}, {16, 1, 120, 383}};
  for (const auto& [rows, cols, row, col] : kSlices) {
    std::vector<Part> parts;
    parts.push_back(fp8_part(random, rows, cols, row, col));
    check_product(ops, report, random, parts);
  }
  check_nan_code(ops, report, random);
  report.done("linear fp8");

  std::vector<Part> mixed;
  mixed.push_back(fp8_part(random, 70, 200));
  mixed.push_back(bf16_part(random, 33, 200));
  check_product(ops, report, random, mixed);
  report.done("linear fp8 and bf16");
}

}  // namespace paceline::ops::cpu_test
