#include <algorithm>

#include "ops/cuda/test/harness.h"

namespace paceline::ops::cuda_test {
namespace {

struct PartShape {
  DType dtype;
  int rows;
  int row_offset = 0;
};

struct Shape {
  std::string name;
  int cols;
  int col_offset;
  std::vector<PartShape> parts;
};

const std::vector<Shape>& shapes() {
  constexpr DType kFp8 = DType::kF8E4M3, kBf16 = DType::kBF16;
  static const std::vector<Shape> all = {
      {"one FP8 block", 128, 0, {{kFp8, 16}}},
      {"FP8, ragged", 700, 0, {{kFp8, 203}}},
      {"FP8, shard within a scale block", 448, 64, {{kFp8, 200, 40}}},
      {"FP8, K of two blocks", 256, 0, {{kFp8, 128}}},
      {"FP8, fused", 512, 128, {{kFp8, 256}, {kFp8, 128, 128}, {kFp8, 48}}},
      {"FP8 and BF16", 640, 0, {{kFp8, 96}, {kBf16, 40}}},
      {"BF16", 384, 0, {{kBf16, 160}}},
      {"BF16, ragged", 100, 0, {{kBf16, 37}}},
      {"F32 and F16", 300, 0, {{DType::kF32, 33}, {DType::kF16, 65}}},
      {"FP8, many groups", 384, 0, {{kFp8, 12000}}},
      {"BF16, many groups", 256, 0, {{kBf16, 12007}}},
  };
  return all;
}

struct Weights {  // host memory of a shape's parts
  std::vector<std::vector<uint8_t>> data;
  std::vector<std::vector<float>> scale;
  std::vector<LinearPart> parts;
};

uint16_t half_of(Random& random) {  // a normal half between 2^-6 and 2
  return static_cast<uint16_t>(random.below(2) << 15 | (9 + random.below(7)) << 10 | random.below(1024));
}

Weights make_weights(const Shape& shape, Random& random) {
  Weights weights;
  for (const PartShape& part : shape.parts) {
    const size_t count = static_cast<size_t>(part.rows) * static_cast<size_t>(shape.cols);
    std::vector<uint8_t> data(count * static_cast<size_t>(size_of(part.dtype)));
    for (size_t i = 0; i < count; ++i) {
      if (part.dtype == DType::kF8E4M3) data[i] = random.code();
      if (part.dtype == DType::kBF16) reinterpret_cast<uint16_t*>(data.data())[i] = float_to_bf16(random.normal());
      if (part.dtype == DType::kF16) reinterpret_cast<uint16_t*>(data.data())[i] = half_of(random);
      if (part.dtype == DType::kF32) reinterpret_cast<float*>(data.data())[i] = random.normal();
    }
    const int64_t scale_rows = (part.row_offset + part.rows + 127) / 128,
                  scale_cols = (shape.col_offset + shape.cols + 127) / 128;
    std::vector<float> scale(static_cast<size_t>(scale_rows * scale_cols));
    for (float& value : scale) value = random.uniform(0.002f, 0.02f);
    weights.data.push_back(std::move(data));
    weights.scale.push_back(std::move(scale));
    weights.parts.push_back({.data = weights.data.back().data(),
                             .dtype = part.dtype,
                             .rows = part.rows,
                             .cols = shape.cols,
                             .row_stride = int64_t{shape.cols} * size_of(part.dtype),
                             .scale = part.dtype == DType::kF8E4M3 ? weights.scale.back().data() : nullptr,
                             .scale_cols = scale_cols,
                             .row_offset = part.row_offset,
                             .col_offset = shape.col_offset});
  }
  return weights;
}

constexpr int kGap = 5;  // columns of y beyond the product

// y[rows, n] of the first `rows` rows of x; checks that nothing else was written.
std::vector<float> product(Ops& ops, const Linear& weight, const std::vector<uint16_t>& x, int rows, Report& report,
                           const std::string& name) {
  const auto n = static_cast<size_t>(weight.rows()), ld = n + kGap;
  Array<uint16_t> input(ops, std::vector<uint16_t>(x.begin(), x.begin() + rows * weight.cols()));
  Array<float> y(ops, static_cast<size_t>(rows) * ld);
  ops.linear(weight, input.data(), rows, y.data(), static_cast<int>(ld));
  const std::vector<float> all = y.get();
  std::vector<float> result;
  bool gap_intact = true;
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    result.insert(result.end(), all.begin() + static_cast<int64_t>(row * ld), all.begin() + static_cast<int64_t>(row * ld + n));
    for (size_t i = n; i < ld; ++i) gap_intact = gap_intact && std::isnan(all[row * ld + i]);
  }
  report.expect(gap_intact && y.intact(), name, ", ", rows, " rows: bytes beyond y changed");
  return result;
}

void test_shape(Backends on, const Shape& shape, Random& random) {
  constexpr int kMost = 300;
  const Weights weights = make_weights(shape, random);
  const auto gpu = on.gpu.pack(weights.parts), cpu = on.cpu.pack(weights.parts);
  const std::vector<uint16_t> x = random.bf16(static_cast<size_t>(kMost * shape.cols));
  const auto n = static_cast<size_t>(gpu->rows());
  const std::vector<float> all = product(on.gpu, *gpu, x, kMost, on.report, shape.name);
  const std::vector<float> wanted = product(on.cpu, *cpu, x, kMost, on.report, shape.name);
  on.report.close(all, wanted, 5e-6, "linear, ", shape.name, " against the CPU");
  std::vector<int> widths = {1, 2, 8, 9, 16, 17, 65};
  if (!on.quick) {
    widths = {63, 64, 65, 128, 256};
    for (int rows = 1; rows <= 40; ++rows) widths.push_back(rows);
  }
  for (const int rows : widths) {
    const std::vector<float> some = product(on.gpu, *gpu, x, rows, on.report, shape.name);
    on.report.expect(same_bits(some.data(), all.data(), n * static_cast<size_t>(rows)), "linear, ", shape.name, ": the bits of ",
                     rows, " rows are not those of ", kMost);
  }
}

// Products in one launch, and one by one.
void test_together(Backends on, Random& random) {
  const Shape first = {"", 640, 0, {{DType::kF8E4M3, 320}, {DType::kF8E4M3, 160}}}, second = {"", 640, 0, {{DType::kBF16, 37}}};
  const Weights a = make_weights(first, random), b = make_weights(second, random);
  const auto wa = on.gpu.pack(a.parts), wb = on.gpu.pack(b.parts);
  for (const int rows : {1, 8, 9, 16, 17, 128}) {
    const std::vector<uint16_t> x = random.bf16(static_cast<size_t>(rows * 640));
    Array<uint16_t> input(on.gpu, x);
    Array<float> ya(on.gpu, static_cast<size_t>(rows * 480)), yb(on.gpu, static_cast<size_t>(rows * 37));
    const LinearJob jobs[] = {{wa.get(), ya.data(), 480}, {wb.get(), yb.data(), 37}};
    on.gpu.linears(jobs, input.data(), rows);
    const std::vector<float> together_a = ya.get(), together_b = yb.get();
    on.gpu.linear(*wa, input.data(), rows, ya.data(), 480);
    on.gpu.linear(*wb, input.data(), rows, yb.data(), 37);
    const bool same = same_bits(together_a.data(), ya.get().data(), together_a.size()) &&
                      same_bits(together_b.data(), yb.get().data(), together_b.size());
    on.report.expect(same && ya.intact() && yb.intact(), "linears, ", rows, " rows: one launch does not give the bits of two");
  }
}

void test_gated(Backends on, Random& random) {
  for (const DType dtype : {DType::kF8E4M3, DType::kBF16}) {
    for (const int width : {64, 200, 6016}) {
      const Shape shape = {"", 384, 0, {{dtype, width}, {dtype, width}}};
      const Weights weights = make_weights(shape, random);
      const auto weight = on.gpu.pack(weights.parts);
      for (const int rows : {1, 2, 7, 8, 9, 16, 17, 40}) {
        Array<uint16_t> x(on.gpu, random.bf16(static_cast<size_t>(rows * 384), 0.1f));
        Array<float> scratch(on.gpu, static_cast<size_t>(2 * rows * width));
        Array<uint16_t> fused(on.gpu, static_cast<size_t>(rows * width)), apart(on.gpu, static_cast<size_t>(rows * width));
        on.gpu.gated_linear(*weight, x.data(), rows, scratch.data(), fused.data());
        on.gpu.linear(*weight, x.data(), rows, scratch.data(), 2 * width);
        on.gpu.swiglu(scratch.data(), rows, width, apart.data());
        const std::vector<uint16_t> a = fused.get(), b = apart.get();
        on.report.expect(same_bits(a.data(), b.data(), a.size()) && fused.intact() && scratch.intact(), "gated_linear of ", width,
                         " columns, ", rows, " rows: not the bits of product and activation apart");
      }
    }
  }
}

float decode(uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const float magnitude =
      exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9) : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// Column k of the weight holds code k in every row; row k of x picks it.
void test_codes(Backends on) {
  std::vector<uint8_t> codes(16 * 256);
  for (size_t i = 0; i < codes.size(); ++i) {
    const uint8_t code = static_cast<uint8_t>(i % 256);
    codes[i] = (code & 0x7f) == 0x7f ? uint8_t{0} : code;
  }
  const float scale[2] = {1.0f, 1.0f};
  LinearPart part = {codes.data(), DType::kF8E4M3, 16, 256, 256, scale, 2, 0, 0};
  const auto weight = on.gpu.pack({&part, 1});
  std::vector<uint16_t> x(256 * 256, 0);
  for (size_t i = 0; i < 256; ++i) x[i * 257] = float_to_bf16(1.0f);
  for (const int rows : {256, 8, 16}) {
    for (int begin = 0; begin < 256; begin += rows) {
      const std::vector<uint16_t> some(x.begin() + begin * 256, x.begin() + (begin + rows) * 256);
      const std::vector<float> y = product(on.gpu, *weight, some, rows, on.report, "codes");
      for (int i = 0; i < rows; ++i) {
        const uint8_t code = codes[static_cast<size_t>(begin + i)];
        for (int n = 0; n < 16; ++n) {
          const float got = y[static_cast<size_t>(i * 16 + n)];
          on.report.expect(got == decode(code), "FP8 code ", int{code}, " became ", got, ", expected ", decode(code));
        }
      }
    }
  }
  for (const uint8_t nan : {uint8_t{0x7f}, uint8_t{0xff}}) {
    std::vector<uint8_t> bad = codes;
    bad[1234] = nan;
    part.data = bad.data();
    bool refused = false;
    try {
      on.gpu.pack({&part, 1});
    } catch (const WeightError& error) {
      refused = std::string(error.what()).find("not numbers") != std::string::npos;
    }
    on.report.expect(refused, "a weight with the FP8 code ", int{nan}, " was packed");
  }
}

}  // namespace

void test_linear(Backends on) {
  Random random(1);
  test_codes(on);
  for (const Shape& shape : shapes()) {
    const bool large = shape.parts[0].rows > 10000;
    if (!on.quick || !large) test_shape(on, shape, random);
  }
  test_together(on, random);
  test_gated(on, random);
  on.report.done("linear");
}

}  // namespace paceline::ops::cuda_test
