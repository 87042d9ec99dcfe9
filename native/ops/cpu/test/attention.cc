// Attention: head norms, RoPE, the cache in bfloat16, a prompt over a split boundary, shared KV heads, the gate; a prompt in one
// step and token by token.
#include "ops/cpu/test/harness.h"

namespace paceline::ops::cpu_test {
namespace {

constexpr double kEps = 1e-6;
constexpr uint16_t kNan = 0x7fc0;

struct Case {
  int heads, kv_heads, head_dim, rotary_dim;
  bool gated;
  int length;  // of the prompt
};

constexpr Case kCases[] = {
    {4, 1, 64, 32, true, 300},  // more than the 256 positions of a split
    {3, 3, 20, 6, false, 70},
    {4, 2, 128, 128, false, 5},
    {5, 1, 72, 0, false, 33},
};

struct Layer {
  Layer(const Case& c, Random& random)
      : shape(c),
        context(c.length + 3),
        query_stride((c.gated ? 2 : 1) * c.head_dim),
        width(c.heads * query_stride + 2 * c.kv_heads * c.head_dim),
        q_norm(random.floats(c.head_dim, 0.2f, 1.0f)),
        k_norm(random.floats(c.head_dim, 0.2f, 1.0f)),
        qkv(random.floats(static_cast<int64_t>(c.length) * width)) {
    const int half = c.rotary_dim / 2;
    for (int position = 0; position < context; ++position) {
      for (int i = 0; i < 2 * half; ++i) {
        const double angle = position * std::pow(1e4, -2.0 * (i % half) / c.rotary_dim);
        rope.push_back(static_cast<float>(i < half ? std::cos(angle) : std::sin(angle)));
      }
    }
  }

  // Rows `first` .. `first + count` of the prompt in one step, into `slot` of a cache of two.
  void run(Ops& ops, std::vector<uint16_t>& cache, int slot, int first, int count, uint16_t* out) const {
    const std::vector<int32_t> slots(count, slot), tokens(count, 0);
    std::vector<int32_t> positions;
    for (int i = 0; i < count; ++i) positions.push_back(first + i);
    const KvCache store = {cache.data(), cache.data() + cache.size() / 2, shape.kv_heads, context, shape.head_dim};
    ops.attention({count, slots.data(), positions.data(), tokens.data()},
                  {.qkv = qkv.data() + static_cast<int64_t>(first) * width,
                   .ld = width,
                   .heads = shape.heads,
                   .gated = shape.gated,
                   .q_norm = q_norm.data(),
                   .k_norm = k_norm.data(),
                   .eps = static_cast<float>(kEps),
                   .rotary_dim = shape.rotary_dim,
                   .rope = rope.data()},
                  store, out);
  }
  int64_t slot_size() const { return static_cast<int64_t>(shape.kv_heads) * context * shape.head_dim; }

  Case shape;
  int context, query_stride, width;
  std::vector<float> q_norm, k_norm, qkv, rope;
};

std::vector<double> norm_and_rotate(const Layer& layer, const float* x, const std::vector<float>& weight, int position) {
  const int dim = layer.shape.head_dim, half = layer.shape.rotary_dim / 2;
  double squares = 0;
  for (int i = 0; i < dim; ++i) squares += static_cast<double>(x[i]) * x[i];
  std::vector<double> out(dim);
  for (int i = 0; i < dim; ++i) out[i] = x[i] / std::sqrt(squares / dim + kEps) * weight[i];
  for (int i = 0; i < half; ++i) {
    const double cosine = layer.rope[position * 2 * half + i], sine = layer.rope[position * 2 * half + half + i];
    const double low = out[i], high = out[half + i];
    out[i] = low * cosine - high * sine;
    out[half + i] = high * cosine + low * sine;
  }
  return out;
}

double rounded(double x) { return bf16_to_float(float_to_bf16(static_cast<float>(x))); }

// keys[position * kv_heads + head], as the cache holds them.
std::vector<std::vector<double>> reference_keys(const Layer& layer) {
  const Case& shape = layer.shape;
  std::vector<std::vector<double>> keys;
  for (int position = 0; position < shape.length; ++position) {
    for (int head = 0; head < shape.kv_heads; ++head) {
      const float* row = layer.qkv.data() + position * layer.width + shape.heads * layer.query_stride;
      keys.push_back(norm_and_rotate(layer, row + head * shape.head_dim, layer.k_norm, position));
      for (double& x : keys.back()) x = rounded(x);
    }
  }
  return keys;
}

std::vector<double> reference_row(const Layer& layer, const std::vector<std::vector<double>>& keys, int position) {
  const Case& shape = layer.shape;
  const int dim = shape.head_dim;
  std::vector<double> out;
  for (int head = 0; head < shape.heads; ++head) {
    const float* query = layer.qkv.data() + position * layer.width + head * layer.query_stride;
    const std::vector<double> q = norm_and_rotate(layer, query, layer.q_norm, position);
    const int kv_head = head / (shape.heads / shape.kv_heads);
    const int values_at = shape.heads * layer.query_stride + (shape.kv_heads + kv_head) * dim;
    std::vector<double> sum(dim);
    double total = 0;
    for (int seen = 0; seen <= position; ++seen) {
      const std::vector<double>& key = keys[seen * shape.kv_heads + kv_head];
      double score = 0;
      for (int i = 0; i < dim; ++i) score += q[i] * key[i];
      const double weight = std::exp(score / std::sqrt(dim));
      total += weight;
      for (int i = 0; i < dim; ++i) sum[i] += weight * rounded(layer.qkv[seen * layer.width + values_at + i]);
    }
    for (int i = 0; i < dim; ++i) {
      const double gate = shape.gated ? 1.0 / (1.0 + std::exp(-static_cast<double>(query[dim + i]))) : 1.0;
      out.push_back(sum[i] / total * gate);
    }
  }
  return out;
}

void check_case(Ops& ops, Report& report, const Layer& layer) {
  const int length = layer.shape.length, row_size = layer.shape.heads * layer.shape.head_dim;
  std::vector<uint16_t> cache(4 * layer.slot_size(), kNan);  // whatever reads past a row's length shows
  Output<uint16_t> whole(length * row_size), single(length * row_size);
  layer.run(ops, cache, 1, 0, length, whole.data());
  report.expect(whole.intact(), "bytes around the output were written");
  for (int64_t i = 0; i < layer.slot_size(); ++i) {
    const bool untouched = cache[i] == kNan && cache[2 * layer.slot_size() + i] == kNan;
    report.expect(untouched, "another slot of the cache was written");
  }
  const std::vector<std::vector<double>> keys = reference_keys(layer);
  std::vector<double> wanted;
  std::vector<uint16_t> got;
  for (int row = 0; row < length; row += row >= 250 && row < 260 ? 1 : 7) {  // each around the split, some of the others
    const std::vector<double> one = reference_row(layer, keys, row);
    wanted.insert(wanted.end(), one.begin(), one.end());
    got.insert(got.end(), whole.data() + row * row_size, whole.data() + (row + 1) * row_size);
  }
  report.distance(got.data(), wanted, 0.5 * kRounding, "attention is off");
  for (int row = 0; row < length; ++row) layer.run(ops, cache, 0, row, 1, single.data() + row * row_size);
  report.expect(same_bits(single.data(), whole.data(), length * row_size), "token by token gives other bits than one step");
}

}  // namespace

void check_attention(Ops& ops, Report& report) {
  Random random(3);
  for (const Case& shape : kCases) check_case(ops, report, Layer(shape, random));
  report.done("attention");
}

}  // namespace paceline::ops::cpu_test
