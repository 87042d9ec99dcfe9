#include "ops/cuda/test/harness.h"

namespace paceline::ops::cuda_test {
namespace {

void test_rms_norm(Backends on, Random& random) {
  for (const int width : {64, 100, 1000, 1001, 5120, 8192, 8196, 20000}) {
    const int rows = 7;
    const auto count = static_cast<size_t>(rows * width);
    const std::vector<float> x = random.floats(count), partial = random.floats(count),
                             weight = random.floats(static_cast<size_t>(width));
    std::vector<float> sum = x;
    for (size_t i = 0; i < count; ++i) sum[i] += partial[i];
    const auto run = [&](Ops& ops, bool add, std::vector<float>& hidden) {
      Array<float> gx(ops, x), gp(ops, partial), gw(ops, weight);
      Array<uint16_t> out(ops, count);
      const float* partials[] = {gp.data()};
      if (add) ops.add_partials(partials, static_cast<int64_t>(count), gx.data());
      ops.rms_norm(gx.data(), gw.data(), 1e-6f, rows, width, out.data());
      hidden = gx.get();
      on.report.expect(out.intact() && gx.intact(), "rms_norm, width ", width, ": bytes beyond changed");
      return out.get();
    };
    std::vector<float> hidden, hidden_cpu;
    for (const bool add : {false, true}) {
      const std::vector<uint16_t> gpu = run(on.gpu, add, hidden), cpu = run(on.cpu, add, hidden_cpu);
      on.report.close(gpu, cpu, 2e-3, "rms_norm, width ", width, add ? ", after a sum" : "");
      on.report.expect(same_bits(hidden.data(), (add ? sum : x).data(), count), "rms_norm, width ", width,
                       ": the input is not x or the sum");
    }
  }
}

// A sum that no norm follows, and one that a norm of another array follows, must be settled all the same.
void test_sums(Backends on, Random& random) {
  const size_t count = 3000;
  for (const int ranks : {1, 2, 4}) {
    std::vector<std::vector<float>> partials;
    for (int r = 0; r < ranks; ++r) partials.push_back(random.floats(count));
    const std::vector<float> x = random.floats(count);
    const auto run = [&](Ops& ops) {
      Array<float> target(ops, x), other(ops, x), weight(ops, x);
      Array<uint16_t> out(ops, count);
      std::vector<Array<float>> arrays;
      std::vector<const float*> pointers;
      for (const auto& partial : partials) arrays.emplace_back(ops, partial);
      for (auto& array : arrays) pointers.push_back(array.data());
      ops.add_partials(pointers, static_cast<int64_t>(count), target.data());
      ops.rms_norm(other.data(), weight.data(), 1e-6f, 1, static_cast<int>(count), out.data());
      ops.add_partials(pointers, static_cast<int64_t>(count), target.data());
      return target.get();
    };
    const std::vector<float> gpu = run(on.gpu), cpu = run(on.cpu);
    on.report.expect(same_bits(gpu.data(), cpu.data(), count), "add_partials over ", ranks, " ranks: not the CPU's bits");
  }
}

void test_swiglu(Backends on, Random& random) {
  for (const int width : {1, 100, 1024}) {
    const std::vector<float> gate_up = random.floats(static_cast<size_t>(5 * 2 * width), 3.0f);
    const auto run = [&](Ops& ops) {
      Array<float> in(ops, gate_up);
      Array<uint16_t> out(ops, static_cast<size_t>(5 * width));
      ops.swiglu(in.data(), 5, width, out.data());
      on.report.expect(out.intact(), "swiglu: bytes beyond changed");
      return out.get();
    };
    on.report.close(run(on.gpu), run(on.cpu), 2e-3, "swiglu, width ", width);
  }
}

void test_embed(Backends on, Random& random) {
  constexpr int kTokens = 50, kWidth = 96;
  const std::vector<int32_t> token = {3, 49, 0, 3};
  const std::vector<float> wide = random.floats(kTokens * kWidth);
  std::vector<uint16_t> half(wide.size());
  for (auto& value : half) value = static_cast<uint16_t>(random.below(0x7bff));
  const std::vector<uint16_t> narrow = random.bf16(wide.size());
  const auto run = [&](Ops& ops, const void* table, DType dtype, size_t bytes) {
    Array<int32_t> tokens(ops, token);
    Array<float> out(ops, token.size() * kWidth);
    ops.embed({4, nullptr, nullptr, tokens.data()}, ops.place(table, bytes), dtype, kWidth, out.data());
    return out.get();
  };
  const auto both = [&](const auto& table, DType dtype, const char* name) {
    const size_t bytes = table.size() * sizeof(table[0]);
    const std::vector<float> gpu = run(on.gpu, table.data(), dtype, bytes), cpu = run(on.cpu, table.data(), dtype, bytes);
    on.report.expect(same_bits(gpu.data(), cpu.data(), cpu.size()), "embed of ", name, ": not the CPU's bits");
  };
  both(wide, DType::kF32, "f32");
  both(half, DType::kF16, "f16");
  both(narrow, DType::kBF16, "bf16");
}

void test_gather(Backends on, Random& random) {
  const std::vector<float> x = random.floats(9 * 333);
  const auto run = [&](Ops& ops) {
    Array<float> in(ops, x), out(ops, 3 * 333);
    Array<int32_t> index(ops, std::vector<int32_t>{8, 0, 4});
    ops.gather(in.data(), index.data(), 3, 333, out.data());
    on.report.expect(out.intact(), "gather: bytes beyond changed");
    return out.get();
  };
  on.report.expect(run(on.gpu) == run(on.cpu), "gather: not the CPU's rows");
}

void test_argmax(Backends on, Random& random) {
  for (const int width : {1, 63, 64, 1000, 248320}) {
    std::vector<float> x = random.floats(static_cast<size_t>(3 * width));
    for (int i = 0; i < width; i += 3) x[static_cast<size_t>(width + i)] = 9.0f;        // ties: the lowest wins
    for (int i = 0; i < width; ++i) x[static_cast<size_t>(2 * width + i)] = -INFINITY;  // nothing finite
    const auto run = [&](Ops& ops, std::vector<int32_t>& index) {
      Array<float> in(ops, x), value(ops, 3);
      Array<int32_t> at(ops, 3);
      ops.argmax(in.data(), 3, width, width, value.data(), at.data());
      index = at.get();
      on.report.expect(value.intact() && at.intact(), "argmax: bytes beyond changed");
      return value.get();
    };
    std::vector<int32_t> gpu_index, cpu_index;
    const std::vector<float> gpu = run(on.gpu, gpu_index), cpu = run(on.cpu, cpu_index);
    on.report.expect(gpu == cpu && gpu_index == cpu_index, "argmax over ", width, ": (", gpu_index[0], ", ", gpu_index[1], ", ",
                     gpu_index[2], "), the CPU found (", cpu_index[0], ", ", cpu_index[1], ", ", cpu_index[2], ")");
  }
}

// A recorded step is replayed on what its memory holds then.
void test_replay(Backends on, Random& random) {
  const std::vector<float> weight = random.floats(512);
  Array<float> x(on.gpu, 2 * 512), w(on.gpu, weight);
  Array<uint16_t> out(on.gpu, 2 * 512), direct(on.gpu, 2 * 512);
  for (int time = 0; time < 4; ++time) {
    x.set(random.floats(2 * 512));
    on.gpu.replay(77, [&] { on.gpu.rms_norm(x.data(), w.data(), 1e-6f, 2, 512, out.data()); });
    on.gpu.rms_norm(x.data(), w.data(), 1e-6f, 2, 512, direct.data());
    on.report.expect(out.get() == direct.get(), "replay ", time, ": not what the operations give");
  }
}

}  // namespace

void test_rows(Backends on) {
  Random random(2);
  test_rms_norm(on, random);
  test_sums(on, random);
  test_swiglu(on, random);
  test_embed(on, random);
  test_gather(on, random);
  test_argmax(on, random);
  test_replay(on, random);
  on.report.done("rows");
}

}  // namespace paceline::ops::cuda_test
