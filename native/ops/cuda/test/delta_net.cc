#include "ops/cuda/test/harness.h"

namespace paceline::ops::cuda_test {
namespace {

constexpr int kSlots = 4;

struct Row {
  int slot, position;
};

std::string name_of(const DeltaNetShape& shape) {
  return concat("delta_net ", shape.key_heads, " x ", shape.key_dim, " / ", shape.value_heads, " x ", shape.value_dim, ", ",
                shape.kernel, " taps");
}

struct Parameters {
  std::vector<float> conv, dt_bias, a_log, norm;
};

// One layer on one backend; its states start with numbers of a request before.
class Layer {
 public:
  Layer(Ops& ops, const DeltaNetShape& shape, const Parameters& parameters, const std::vector<float>& recurrent,
        const std::vector<float>& window)
      : ops_(ops),
        shape_(shape),
        conv_(ops, parameters.conv),
        dt_bias_(ops, parameters.dt_bias),
        a_log_(ops, parameters.a_log),
        norm_(ops, parameters.norm),
        recurrent_(ops, recurrent),
        window_(ops, window) {}

  // inputs: [rows, channels + values + 2 * value_heads]: qkv, z, b, a
  std::vector<uint16_t> run(const std::vector<Row>& rows, const std::vector<float>& inputs, Report& report) {
    std::vector<int32_t> slot, position;
    for (const Row& row : rows) slot.push_back(row.slot), position.push_back(row.position);
    Array<int32_t> slots(ops_, slot), positions(ops_, position);
    Array<float> all(ops_, inputs);
    const int channels = shape_.channels(), values = shape_.value_heads * shape_.value_dim,
              ld = channels + values + 2 * shape_.value_heads;
    Array<uint16_t> out(ops_, rows.size() * static_cast<size_t>(values));
    const DeltaNetInput in = {.qkv = all.data(),
                              .z = all.data() + channels,
                              .b = all.data() + channels + values,
                              .a = all.data() + channels + values + shape_.value_heads,
                              .ld_qkv = ld,
                              .ld_z = ld,
                              .ld_ba = ld,
                              .conv_weight = conv_.data(),
                              .dt_bias = dt_bias_.data(),
                              .a_log = a_log_.data(),
                              .norm = norm_.data(),
                              .eps = 1e-6f};
    ops_.delta_net({static_cast<int>(rows.size()), slots.data(), positions.data(), nullptr}, shape_, in,
                   {recurrent_.data(), window_.data()}, false, out.data());
    report.expect(out.intact() && recurrent_.intact() && window_.intact(), name_of(shape_), ": bytes beyond changed");
    return out.get();
  }
  std::vector<float> recurrent() { return recurrent_.get(); }
  std::vector<float> window() { return window_.get(); }

 private:
  Ops& ops_;
  const DeltaNetShape shape_;
  Array<float> conv_, dt_bias_, a_log_, norm_, recurrent_, window_;
};

void test_shape(Backends on, const DeltaNetShape& shape, Random& random) {
  const auto channels = static_cast<size_t>(shape.channels()), heads = static_cast<size_t>(shape.value_heads),
             dv = static_cast<size_t>(shape.value_dim);
  const size_t width = channels + heads * dv + 2 * heads;
  Parameters parameters = {
      random.floats(channels * static_cast<size_t>(shape.kernel), 0.5f), random.floats(heads), {}, random.floats(dv)};
  for (size_t i = 0; i < heads; ++i) parameters.a_log.push_back(std::log(random.uniform(0.1f, 8.0f)));
  const std::vector<float> recurrent = random.floats(kSlots * heads * dv * static_cast<size_t>(shape.key_dim));
  const std::vector<float> window = random.floats(kSlots * static_cast<size_t>(shape.kernel - 1) * channels);
  Layer gpu(on.gpu, shape, parameters, recurrent, window), cpu(on.cpu, shape, parameters, recurrent, window);
  Layer pieces(on.gpu, shape, parameters, recurrent, window);
  // Prompts of 40, 1, 2 and 16 rows; then decode, alone and together.
  std::vector<Row> prompts;
  const int lengths[kSlots] = {40, 1, 2, 16};
  for (const int slot : {2, 0, 3, 1}) {
    for (int i = 0; i < lengths[slot]; ++i) prompts.push_back({slot, i});
  }
  const std::vector<float> inputs = random.floats(prompts.size() * width);
  const std::vector<uint16_t> whole = gpu.run(prompts, inputs, on.report);
  on.report.close(whole, cpu.run(prompts, inputs, on.report), 4e-3, name_of(shape), ", prompts against the CPU");
  on.report.close(gpu.recurrent(), cpu.recurrent(), 1e-5, name_of(shape), ", state after prompts");
  on.report.close(gpu.window(), cpu.window(), 1e-7, name_of(shape), ", window after prompts");
  for (size_t begin = 0; begin < prompts.size();) {  // cut where a step may cut
    size_t count = 1;
    while (count < 7 && begin + count < prompts.size() && prompts[begin + count].slot == prompts[begin].slot) ++count;
    const std::vector<Row> some(prompts.begin() + static_cast<int64_t>(begin),
                                prompts.begin() + static_cast<int64_t>(begin + count));
    const std::vector<float> part(inputs.begin() + static_cast<int64_t>(begin * width),
                                  inputs.begin() + static_cast<int64_t>((begin + count) * width));
    const std::vector<uint16_t> out = pieces.run(some, part, on.report);
    on.report.expect(same_bits(out.data(), whole.data() + begin * heads * dv, out.size()), name_of(shape), ", row ", begin,
                     ": other bits than in company");
    begin += count;
  }
  on.report.expect(gpu.recurrent() == pieces.recurrent() && gpu.window() == pieces.window(), name_of(shape),
                   ": the states depend on how prompts are cut");
  for (int step = 0; step < 3; ++step) {
    std::vector<Row> rows;
    for (const int slot : {0, 1, 3}) rows.push_back({slot, lengths[slot] + step});
    const std::vector<float> more = random.floats(rows.size() * width);
    const std::vector<uint16_t> together = gpu.run(rows, more, on.report);
    on.report.close(together, cpu.run(rows, more, on.report), 4e-3, name_of(shape), ", decode against the CPU");
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float> part(more.begin() + static_cast<int64_t>(i * width),
                                    more.begin() + static_cast<int64_t>((i + 1) * width));
      const std::vector<uint16_t> alone = pieces.run({rows[i]}, part, on.report);
      on.report.expect(same_bits(alone.data(), together.data() + i * heads * dv, alone.size()), name_of(shape),
                       ": decode alone has other bits");
    }
  }
  on.report.expect(gpu.recurrent() == pieces.recurrent() && gpu.window() == pieces.window(), name_of(shape),
                   ": the states of decode depend on company");
}

}  // namespace

void test_delta_net(Backends on) {
  Random random(4);
  for (const DeltaNetShape& shape :
       {DeltaNetShape{2, 6, 128, 128, 4}, DeltaNetShape{1, 1, 128, 128, 4}, DeltaNetShape{2, 2, 64, 32, 4},
        DeltaNetShape{1, 2, 32, 24, 3}, DeltaNetShape{1, 2, 256, 256, 4}, DeltaNetShape{1, 3, 64, 64, 8}}) {
    test_shape(on, shape, random);
  }
  on.report.done("delta_net");
}

}  // namespace paceline::ops::cuda_test
