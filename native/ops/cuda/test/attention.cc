#include "ops/cuda/test/harness.h"

namespace paceline::ops::cuda_test {
namespace {

struct Shape {
  int heads, kv_heads, head_dim, rotary_dim;
  bool gated;
  int width() const { return heads * head_dim * (gated ? 2 : 1) + 2 * kv_heads * head_dim; }
};

constexpr int kSlots = 3, kContext = 600;

struct Row {
  int slot, position;
};

// The layer's data on one backend. Caches start poisoned: a position nobody wrote must not be read.
class Layer {
 public:
  Layer(Ops& ops, const Shape& shape, const std::vector<float>& norm, const std::vector<float>& rope)
      : ops_(ops),
        shape_(shape),
        q_norm_(ops, norm),
        k_norm_(ops, norm),
        rope_(ops, rope),
        key_(ops, cells()),
        value_(ops, cells()) {}

  // inputs: [rows, width]
  std::vector<uint16_t> run(const std::vector<Row>& rows, const std::vector<float>& inputs, Report& report) {
    std::vector<int32_t> slot, position;
    for (const Row& row : rows) slot.push_back(row.slot), position.push_back(row.position);
    Array<int32_t> slots(ops_, slot), positions(ops_, position);
    Array<float> qkv(ops_, inputs);
    Array<uint16_t> out(ops_, rows.size() * static_cast<size_t>(shape_.heads * shape_.head_dim));
    const AttentionInput in = {.qkv = qkv.data(),
                               .ld = shape_.width(),
                               .heads = shape_.heads,
                               .gated = shape_.gated,
                               .q_norm = q_norm_.data(),
                               .k_norm = k_norm_.data(),
                               .eps = 1e-6f,
                               .rotary_dim = shape_.rotary_dim,
                               .rope = rope_.data()};
    ops_.attention({static_cast<int>(rows.size()), slots.data(), positions.data(), nullptr}, in,
                   {key_.data(), value_.data(), shape_.kv_heads, kContext, shape_.head_dim}, out.data());
    report.expect(out.intact() && key_.intact() && value_.intact(), "attention, head_dim ", shape_.head_dim,
                  ": bytes beyond changed");
    return out.get();
  }
  std::vector<uint16_t> cache() {
    std::vector<uint16_t> all = key_.get(), values = value_.get();
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }

 private:
  size_t cells() const { return static_cast<size_t>(kSlots * shape_.kv_heads * kContext) * static_cast<size_t>(shape_.head_dim); }

  Ops& ops_;
  const Shape shape_;
  Array<float> q_norm_, k_norm_, rope_;
  Array<uint16_t> key_, value_;
};

void test_shape(Backends on, const Shape& shape, Random& random) {
  const std::vector<float> norm = random.floats(static_cast<size_t>(shape.head_dim));
  std::vector<float> rope(static_cast<size_t>(kContext * shape.rotary_dim));
  for (int p = 0; p < kContext; ++p) {
    for (int i = 0; i < shape.rotary_dim / 2; ++i) {
      const float angle =
          static_cast<float>(p) * std::pow(1e4f, -2.0f * static_cast<float>(i) / static_cast<float>(shape.rotary_dim));
      rope[static_cast<size_t>(p * shape.rotary_dim + i)] = std::cos(angle);
      rope[static_cast<size_t>(p * shape.rotary_dim + shape.rotary_dim / 2 + i)] = std::sin(angle);
    }
  }
  std::vector<Row> rows;  // three prompts, one over two splits of keys
  for (int i = 0; i < 530; ++i) rows.push_back({1, i});
  for (int i = 0; i < 5; ++i) rows.push_back({0, i});
  for (int i = 0; i < 257; ++i) rows.push_back({2, i});
  const auto width = static_cast<size_t>(shape.width()), out_width = static_cast<size_t>(shape.heads * shape.head_dim);
  const std::vector<float> inputs = random.floats(rows.size() * width);
  Layer gpu(on.gpu, shape, norm, rope), cpu(on.cpu, shape, norm, rope), pieces(on.gpu, shape, norm, rope);
  const std::vector<uint16_t> wanted = cpu.run(rows, inputs, on.report), whole = gpu.run(rows, inputs, on.report);
  on.report.close(whole, wanted, 4e-3, "attention, head_dim ", shape.head_dim, ", prompts against the CPU");
  for (size_t begin = 0; begin < rows.size();) {  // pieces that straddle nothing but rows
    const size_t count = std::min<size_t>(rows.size() - begin, begin < 32 ? 1 : 16);
    const std::vector<Row> some(rows.begin() + static_cast<int64_t>(begin), rows.begin() + static_cast<int64_t>(begin + count));
    const std::vector<float> some_inputs(inputs.begin() + static_cast<int64_t>(begin * width),
                                         inputs.begin() + static_cast<int64_t>((begin + count) * width));
    const std::vector<uint16_t> piece = pieces.run(some, some_inputs, on.report);
    on.report.expect(same_bits(piece.data(), whole.data() + begin * out_width, piece.size()), "attention, head_dim ",
                     shape.head_dim, ", row ", begin, ": other bits than among ", rows.size(), " rows");
    begin += count;
  }
  on.report.expect(gpu.cache() == pieces.cache(), "attention, head_dim ", shape.head_dim,
                   ": the cache depends on how a prompt is cut");
  const std::vector<Row> decode = {{2, 257}, {0, 5}, {1, 530}};
  const std::vector<float> more = random.floats(decode.size() * width);
  on.report.close(gpu.run(decode, more, on.report), cpu.run(decode, more, on.report), 4e-3, "attention, head_dim ",
                  shape.head_dim, ", decode against the CPU");
}

}  // namespace

void test_attention(Backends on) {
  Random random(3);
  for (const Shape& shape : {Shape{4, 2, 64, 64, false}, Shape{6, 1, 256, 64, true}, Shape{4, 4, 32, 16, true},
                             Shape{8, 2, 128, 128, false}, Shape{3, 1, 80, 40, true}, Shape{2, 1, 16, 4, false}}) {
    test_shape(on, shape, random);
  }
  on.report.done("attention");
}

}  // namespace paceline::ops::cuda_test
