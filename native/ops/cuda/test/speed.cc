// Times the products of the 27B shape and whole steps of it, on weights that exist once each: nothing comes from a cache.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "model/rank_model.h"
#include "ops/cuda/test/harness.h"

namespace paceline::ops::cuda_test {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median_of(int times, const std::function<void()>& work) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    work();
    all.push_back(milliseconds_since(start));
  }
  std::nth_element(all.begin(), all.begin() + times / 2, all.end());
  return all[static_cast<size_t>(times / 2)];
}

model::ModelConfig make_config(int layers) {
  model::ModelConfig config;
  config.family = "qwen3_5";
  config.vocab_size = 248320;
  config.hidden_size = 5120;
  config.intermediate_size = 17408;
  config.num_heads = 24;
  config.num_kv_heads = 4;
  config.head_dim = 256;
  config.rotary_dim = 64;
  config.rope_theta = 1e7;
  config.rms_norm_eps = 1e-6f;
  for (int i = 0; i < layers; ++i) {
    config.layers.push_back(i % 4 == 3 ? model::LayerType::kFullAttention : model::LayerType::kLinearAttention);
  }
  config.linear_num_key_heads = 16;
  config.linear_num_value_heads = 48;
  config.linear_key_head_dim = 128;
  config.linear_value_head_dim = 128;
  config.linear_conv_kernel = 4;
  return config;
}

class Source {  // one stretch of random numbers that every tensor is cut from
 public:
  Source() : codes_(kBytes), wide_(kBytes / 2), scale_(1 << 20) {
    Random random(5);
    for (size_t i = 0; i < kPattern; ++i) codes_[i] = random.code();
    for (size_t i = 0; i < kPattern; ++i) wide_[i] = float_to_bf16(random.normal(0.02f));
    for (size_t i = kPattern; i < codes_.size(); i += kPattern)
      std::copy_n(codes_.begin(), std::min(kPattern, codes_.size() - i), codes_.begin() + static_cast<int64_t>(i));
    for (size_t i = kPattern; i < wide_.size(); i += kPattern)
      std::copy_n(wide_.begin(), std::min(kPattern, wide_.size() - i), wide_.begin() + static_cast<int64_t>(i));
    for (float& value : scale_) value = random.uniform(0.5e-4f, 2e-4f);
  }

  // [rows, cols], of up to a chunk of rows: the parts of a larger matrix repeat.
  LinearPart part(int64_t rows, int64_t cols, bool fp8) const {
    return {.data = fp8 ? static_cast<const void*>(codes_.data()) : wide_.data(),
            .dtype = fp8 ? DType::kF8E4M3 : DType::kBF16,
            .rows = rows,
            .cols = cols,
            .row_stride = cols * (fp8 ? 1 : 2),
            .scale = fp8 ? scale_.data() : nullptr,
            .scale_cols = (cols + 127) / 128,
            .row_offset = 0,
            .col_offset = 0};
  }

 private:
  static constexpr size_t kBytes = size_t{248320} * 5120 * 2;  // the head's
  static constexpr size_t kPattern = 1000003;
  std::vector<uint8_t> codes_;
  std::vector<uint16_t> wide_;
  std::vector<float> scale_;
};

void time_product(Ops& ops, const Source& source, double ceiling, const char* name, const std::vector<int64_t>& rows,
                  int64_t cols, bool fp8) {
  std::vector<LinearPart> parts;
  for (const int64_t part_rows : rows) parts.push_back(source.part(part_rows, cols, fp8));
  std::vector<std::unique_ptr<Linear>> copies;
  size_t bytes = 0;
  while (bytes < (size_t{2} << 30) || copies.size() < 2) {
    copies.push_back(ops.pack(parts));
    bytes += copies.back()->bytes();
  }
  Random random(6);
  const auto n = copies[0]->rows();
  Array<uint16_t> x(ops, random.bf16(static_cast<size_t>(256 * cols)));
  Array<float> y(ops, static_cast<size_t>(256 * n));
  std::printf("%-8s %6lld x %5lld %s", name, static_cast<long long>(n), static_cast<long long>(cols), fp8 ? "FP8 " : "BF16");
  static uint64_t key = 1000;
  for (const int m : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    if (m > 16 && n > 100000) continue;  // the head never sees so many
    ++key;
    const auto work = [&] {
      ops.replay(key, [&] {
        for (const auto& weight : copies) ops.linear(*weight, x.data(), m, y.data(), static_cast<int>(n));
      });
      ops.synchronize();
    };
    for (int i = 0; i < 3; ++i) work();
    const double one = median_of(5, work) / static_cast<double>(copies.size());
    const double rate = static_cast<double>(copies[0]->bytes()) / one * 1e-6;
    std::printf(" | %3d: %7.1f us %4.0f GB/s %3.0f%%", m, one * 1e3, rate, 100 * rate / ceiling);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void load(model::RankModel& model, const model::ModelConfig& config, const Source& source, std::vector<uint16_t>& table) {
  Random random(7);
  for (const model::TensorSpec& tensor : model::list_tensors(config, model.shard())) {
    if (tensor.kind == model::TensorKind::kVector) {
      const bool is_norm = tensor.name.ends_with("norm");
      std::vector<float> values = random.floats(static_cast<size_t>(tensor.elements()), is_norm ? 0.0f : 0.3f);
      for (float& value : values) value += is_norm ? 1.0f : 0.0f;
      std::vector<int64_t> shape = {tensor.rows()};
      if (tensor.cols > 0) shape.push_back(tensor.cols);
      model.weights().set_vector(tensor.name, values, shape, model.ops());
      continue;
    }
    const bool fp8 = tensor.name != "head" && !tensor.name.ends_with("in_ba");
    std::vector<model::MatrixPart> parts;
    for (const int64_t rows : tensor.part_rows)
      parts.push_back({source.part(rows, tensor.cols, fp8), fp8 ? (rows + 127) / 128 : 0});
    model.weights().set_matrix(tensor.name, parts, model.ops());
  }
  table.resize(static_cast<size_t>(config.vocab_size) * static_cast<size_t>(config.hidden_size));
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = float_to_bf16(static_cast<float>(static_cast<int>(i * 2654435761u >> 16 & 255) - 128) / 128.0f);
  model.finish_loading({table.data(), DType::kBF16});
}

void add_row(model::Step& step, int slot, int position, bool wanted) {
  step.slot.push_back(slot);
  step.position.push_back(position);
  step.token.push_back((slot * 7919 + position * 104729) % 248320);
  if (!wanted) return;
  step.wanted.push_back(step.rows() - 1);
  step.keep.push_back(0);
}

void time_steps(int device, int layers, const Source& source, double ceiling) {
  const model::ModelConfig config = make_config(layers);
  const model::Shard shard = model::make_shard(config, 0, 1);
  const auto communicator = parallel::make_shared_memory_communicator(1, 0);
  model::RankModel model(config, shard, {.slots = 16, .context = 512, .rows = 256}, make_cuda_ops(device), *communicator);
  std::vector<uint16_t> table;
  const auto start = Clock::now();
  load(model, config, source, table);
  std::printf("%d layers: %.2f GB of weights, loaded in %.1f s\n", layers, static_cast<double>(model.weights().bytes()) * 1e-9,
              milliseconds_since(start) * 1e-3);
  model::StepOutput output;
  output.best.resize(1);
  const auto run = [&](const model::Step& step) {
    output.best[0].clear();
    model.forward(step, output);
  };
  for (const int prompts : {1, 2, 4, 8, 16}) {  // of 16 tokens
    model::Step step;
    for (int slot = 0; slot < prompts; ++slot) {
      for (int position = 0; position < 16; ++position) add_row(step, slot, position, position == 15);
    }
    run(step);
    std::printf("prefill of %2d x 16 rows: %8.3f ms\n", prompts, median_of(5, [&] { run(step); }));
  }
  for (const int rows : {1, 2, 3, 4, 6, 8, 12, 16}) {
    int position = 16;
    const auto decode = [&] {
      model::Step step;
      for (int slot = 0; slot < rows; ++slot) add_row(step, slot, position, true);
      run(step);
      ++position;
    };
    for (int i = 0; i < 3; ++i) decode();
    const double one = median_of(31, decode);
    const double rate = static_cast<double>(model.weights().matrix_bytes()) / one * 1e-6;
    std::printf(
        "decode of %2d rows: %8.3f ms, %7.1f tok/s, weights at %4.0f GB/s, %3.0f%% of the ceiling; first row: token %d, logit "
        "%g\n",
        rows, one, rows * 1e3 / one, rate, 100 * rate / ceiling, output.best[0][0].token,
        static_cast<double>(output.best[0][0].value));
    std::fflush(stdout);
  }
}

}  // namespace

void time_model(int device, int layers) {
  const auto ops = make_cuda_ops(device);
  const double ceiling = probe_read_bandwidth();
  std::printf("read bandwidth: %.0f GB/s\n", ceiling);
  const Source source;
  time_product(*ops, source, ceiling, "in", {2048, 2048, 6144, 6144}, 5120, true);
  time_product(*ops, source, ceiling, "out", {5120}, 6144, true);
  time_product(*ops, source, ceiling, "qkv", {12288, 1024, 1024}, 5120, true);
  time_product(*ops, source, ceiling, "gate_up", {17408, 17408}, 5120, true);
  time_product(*ops, source, ceiling, "down", {5120}, 17408, true);
  time_product(*ops, source, ceiling, "head", {248320}, 5120, false);
  time_steps(device, layers, source, ceiling);
}

}  // namespace paceline::ops::cuda_test
