// The Gated DeltaNet layer against a plain recurrence: both forms over a dirty slot, then rows of several slots in one step.
#include "ops/cpu/test/harness.h"

namespace paceline::ops::cpu_test {
namespace {

constexpr double kEps = 1e-6, kStateError = 2e-5;
constexpr int kSlots = 3;

constexpr DeltaNetShape kShapes[] = {{1, 2, 32, 64, 4}, {3, 3, 20, 13, 3}, {2, 2, 16, 16, 1}};

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

struct State {
  explicit State(const DeltaNetShape& s)
      : recurrent(static_cast<int64_t>(kSlots) * s.value_heads * s.value_dim * s.key_dim, 1e3f),  // another request's leavings
        conv(static_cast<int64_t>(kSlots) * (s.kernel - 1) * s.channels(), 1e3f) {}
  std::vector<float> recurrent, conv;
};

struct Layer {
  Layer(const DeltaNetShape& s, int rows, Random& random)
      : shape(s),
        length(rows),
        qkv(random.floats(rows * s.channels())),
        z(random.floats(rows * s.value_heads * s.value_dim)),
        b(random.floats(rows * s.value_heads)),
        a(random.floats(rows * s.value_heads)),
        conv_weight(random.floats(s.channels() * s.kernel, 0.5f)),
        dt_bias(random.floats(s.value_heads)),
        a_log(random.floats(s.value_heads, 0.7f)),
        norm(random.floats(s.value_dim, 0.2f, 1.0f)) {}

  int row_size() const { return shape.value_heads * shape.value_dim; }
  // Input rows from `first` on, one for each slot and position given.
  void run(Ops& ops, State& state, int first, const std::vector<int32_t>& slot, const std::vector<int32_t>& position,
           bool chunked, uint16_t* out) const {
    const std::vector<int32_t> token(slot.size(), 0);
    ops.delta_net({static_cast<int>(slot.size()), slot.data(), position.data(), token.data()}, shape,
                  {.qkv = qkv.data() + first * shape.channels(),
                   .z = z.data() + first * row_size(),
                   .b = b.data() + first * shape.value_heads,
                   .a = a.data() + first * shape.value_heads,
                   .ld_qkv = shape.channels(),
                   .ld_z = row_size(),
                   .ld_ba = shape.value_heads,
                   .conv_weight = conv_weight.data(),
                   .dt_bias = dt_bias.data(),
                   .a_log = a_log.data(),
                   .norm = norm.data(),
                   .eps = static_cast<float>(kEps)},
                  {state.recurrent.data(), state.conv.data()}, chunked, out);
  }

  DeltaNetShape shape;
  int length;
  std::vector<float> qkv, z, b, a, conv_weight, dt_bias, a_log, norm;
};

double convolved(const Layer& layer, int row, int channel) {
  const DeltaNetShape& s = layer.shape;
  double sum = 0;
  for (int tap = 0; tap < s.kernel; ++tap) {
    const int from = row - (s.kernel - 1) + tap;
    if (from >= 0)
      sum += static_cast<double>(layer.conv_weight[channel * s.kernel + tap]) * layer.qkv[from * s.channels() + channel];
  }
  return sum * logistic(sum);
}

std::vector<double> normalised(const Layer& layer, int row, int channel, double factor) {
  std::vector<double> out;
  double squares = 0;
  for (int i = 0; i < layer.shape.key_dim; ++i) {
    out.push_back(convolved(layer, row, channel + i));
    squares += out.back() * out.back();
  }
  for (double& x : out) x *= factor / std::sqrt(squares + 1e-6);
  return out;
}

// One head over the prompt: its part of `out` [length, row_size] and its last state [value_dim, key_dim].
void reference_head(const Layer& layer, int head, std::vector<double>& out, double* state) {
  const DeltaNetShape& s = layer.shape;
  const int key_head = head / (s.value_heads / s.key_heads), keys = s.key_heads * s.key_dim;
  for (int row = 0; row < layer.length; ++row) {
    const std::vector<double> q = normalised(layer, row, key_head * s.key_dim, 1.0 / std::sqrt(s.key_dim));
    const std::vector<double> k = normalised(layer, row, keys + key_head * s.key_dim, 1.0);
    const double step = static_cast<double>(layer.a[row * s.value_heads + head]) + layer.dt_bias[head];
    const double decay = std::exp(-std::exp(static_cast<double>(layer.a_log[head])) * std::log1p(std::exp(step)));
    const double beta = logistic(layer.b[row * s.value_heads + head]);
    double squares = 0;
    double* o = out.data() + row * layer.row_size() + head * s.value_dim;
    for (int v = 0; v < s.value_dim; ++v) {
      double* column = state + v * s.key_dim;
      double with_k = 0;
      for (int i = 0; i < s.key_dim; ++i) with_k += (column[i] *= decay) * k[i];
      const double delta = (convolved(layer, row, 2 * keys + head * s.value_dim + v) - with_k) * beta;
      o[v] = 0;
      for (int i = 0; i < s.key_dim; ++i) o[v] += (column[i] += delta * k[i]) * q[i];
      squares += o[v] * o[v];
    }
    for (int v = 0; v < s.value_dim; ++v) {
      const double z = layer.z[row * layer.row_size() + head * s.value_dim + v];
      o[v] *= layer.norm[v] / std::sqrt(squares / s.value_dim + kEps) * z * logistic(z);
    }
  }
}

void check_prompt(Ops& ops, Report& report, const Layer& layer, bool chunked) {
  const DeltaNetShape& s = layer.shape;
  const int64_t state_size = static_cast<int64_t>(s.value_heads) * s.value_dim * s.key_dim;
  std::vector<double> wanted(layer.length * layer.row_size()), wanted_state(state_size);
  for (int head = 0; head < s.value_heads; ++head)
    reference_head(layer, head, wanted, wanted_state.data() + head * s.value_dim * s.key_dim);
  State state(s);
  std::vector<int32_t> position;
  for (int row = 0; row < layer.length; ++row) position.push_back(row);
  Output<uint16_t> out(layer.length * layer.row_size());
  layer.run(ops, state, 0, std::vector<int32_t>(layer.length, 1), position, chunked, out.data());
  report.expect(out.intact(), "bytes around the output were written");
  report.distance(out.data(), wanted, kRounding, "the layer's output is off");
  report.distance(state.recurrent.data() + state_size, wanted_state, kStateError, "the last state is off");
  for (int tap = 0; tap < s.kernel - 1; ++tap) {
    for (int channel = 0; channel < s.channels(); ++channel) {
      const int from = layer.length - (s.kernel - 1) + tap;
      const float input = from >= 0 ? layer.qkv[from * s.channels() + channel] : 0.0f;
      report.expect(state.conv[(s.kernel - 1 + tap) * s.channels() + channel] == input, "the convolution keeps another input");
    }
  }
  for (int64_t i = 0; i < state_size; ++i) {
    const bool untouched = state.recurrent[i] == 1e3f && state.recurrent[2 * state_size + i] == 1e3f;
    report.expect(untouched, "another slot's state was written");
  }
}

// Three slots that decode together and one after the other: the same bits.
void check_batch(Ops& ops, Report& report, const Layer& layer) {
  State together(layer.shape), apart(layer.shape);
  const int size = layer.row_size();
  for (int position = 0; position < 6; ++position) {
    Output<uint16_t> batch(kSlots * size), alone(kSlots * size);
    const int first = position * kSlots;
    layer.run(ops, together, first, {2, 0, 1}, std::vector<int32_t>(kSlots, position), false, batch.data());
    for (int row = 0; row < kSlots; ++row)
      layer.run(ops, apart, first + row, {(row + 2) % kSlots}, {position}, false, alone.data() + row * size);
    report.expect(same_bits(batch.data(), alone.data(), kSlots * size), "a row differs from the row alone");
  }
  const bool same = same_bits(together.recurrent.data(), apart.recurrent.data(), static_cast<int64_t>(apart.recurrent.size()));
  report.expect(same, "a slot's state differs from the one of the row alone");
}

}  // namespace

void check_delta_net(Ops& ops, Report& report) {
  Random random(4);
  for (const bool chunked : {false, true}) {
    for (const DeltaNetShape& shape : kShapes) {
      for (const int length : {1, 2, 7, 150}) check_prompt(ops, report, Layer(shape, length, random), chunked);
      check_batch(ops, report, Layer(shape, 6 * kSlots, random));
    }
    report.done(chunked ? "delta_net chunked" : "delta_net");
  }
}

}  // namespace paceline::ops::cpu_test
