// One Gated DeltaNet layer between its projections: convolution, gates, recurrence, gated norm.
#include <cmath>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {
namespace {

constexpr int kChannelStep = 256;  // channels of the convolution handed out at a time
constexpr int kMaxTaps = 16;

void check_shape(const DeltaNetShape& shape) {
  check<ConfigError>(shape.key_heads > 0 && shape.value_heads % shape.key_heads == 0, "value_heads is ", shape.value_heads,
                     ", must be a multiple of the ", shape.key_heads, " key heads");
  check<ConfigError>(shape.kernel >= 1 && shape.kernel <= kMaxTaps, "the convolution has ", shape.kernel,
                     " taps, allowed are 1 to ", kMaxTaps);
}

float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

float logistic(float x) { return 1.0f / (1.0f + std::exp(-x)); }

}  // namespace

void CpuOps::find_runs(const Rows& rows, int longest) {
  runs_.clear();
  for (int row = 0; row < rows.count; ++row) {
    const bool follows = !runs_.empty() && runs_.back().count < longest && runs_.back().slot == rows.slot[row] &&
                         runs_.back().position + runs_.back().count == rows.position[row];
    if (follows) {
      ++runs_.back().count;
    } else {
      runs_.push_back({row, 1, rows.slot[row], rows.position[row]});
    }
  }
}

// Convolution with SiLU of all rows into convolved_, and the new convolution state.
void CpuOps::convolve_runs(const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state) {
  const int64_t channels = shape.channels();
  const int64_t steps = (channels + kChannelStep - 1) / kChannelStep;
  divide(steps, 4, [&](int64_t first, int64_t last, int) {
    for (int64_t step = first; step < last; ++step) {
      const int64_t channel = step * kChannelStep;
      const int width = static_cast<int>(std::min<int64_t>(kChannelStep, channels - channel));
      float taps[kMaxTaps * kChannelStep];  // the weights with the channels side by side
      for (int tap = 0; tap < shape.kernel; ++tap) {
        for (int c = 0; c < width; ++c) taps[tap * width + c] = in.conv_weight[(channel + c) * shape.kernel + tap];
      }
      for (const Run& run : runs_) {
        vector_.convolve({.in = in.qkv + static_cast<int64_t>(run.first) * in.ld_qkv + channel,
                          .ld_in = in.ld_qkv,
                          .rows = run.count,
                          .width = width,
                          .kernel = shape.kernel,
                          .weight = taps,
                          .state = state.conv + static_cast<int64_t>(run.slot) * (shape.kernel - 1) * channels + channel,
                          .ld_state = channels,
                          .fresh = run.position == 0,
                          .out = convolved_.as<float>() + run.first * channels + channel,
                          .ld_out = channels});
      }
    }
  });
}

// Gates and recurrence of one value head over one run. `scratch` holds the gates of the run's rows, then the kernel's own room.
void CpuOps::delta_head(const Run& run, int head, const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state,
                        bool chunked, float* scratch, uint16_t* out) {
  const int64_t channels = shape.channels(), width = shape.value_dim;
  const int64_t key_head = head / (shape.value_heads / shape.key_heads);
  const int64_t keys_at = static_cast<int64_t>(shape.key_heads) * shape.key_dim;
  float *log_decay = scratch, *beta = scratch + run.count;
  const float rate = -std::exp(in.a_log[head]);
  for (int i = 0; i < run.count; ++i) {
    const int64_t at = static_cast<int64_t>(run.first + i) * in.ld_ba + head;
    log_decay[i] = rate * softplus(in.a[at] + in.dt_bias[head]);
    beta[i] = logistic(in.b[at]);
  }
  const int64_t state_size = width * shape.key_dim;
  float* own_state = state.recurrent + (static_cast<int64_t>(run.slot) * shape.value_heads + head) * state_size;
  if (run.position == 0) std::fill_n(own_state, state_size, 0.0f);
  const float* rows = convolved_.as<float>() + run.first * channels;
  const DeltaCall call = {.rows = run.count,
                          .q = rows + key_head * shape.key_dim,
                          .k = rows + keys_at + key_head * shape.key_dim,
                          .v = rows + 2 * keys_at + head * width,
                          .ld = channels,
                          .log_decay = log_decay,
                          .beta = beta,
                          .z = in.z + static_cast<int64_t>(run.first) * in.ld_z + head * width,
                          .ld_z = in.ld_z,
                          .norm = in.norm,
                          .eps = in.eps,
                          .key_dim = shape.key_dim,
                          .value_dim = shape.value_dim,
                          .position = run.position,
                          .state = own_state,
                          .scratch = scratch + 2 * run.count,
                          .out = out + (static_cast<int64_t>(run.first) * shape.value_heads + head) * width,
                          .ld_out = shape.value_heads * width};
  (chunked ? vector_.delta_chunked : vector_.delta_sequential)(call);
}

void CpuOps::delta_net(const Rows& rows, const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state,
                       bool chunked, uint16_t* out) {
  check_shape(shape);
  find_runs(rows, rows.count);
  convolved_.reserve(static_cast<size_t>(rows.count) * shape.channels() * sizeof(float));
  convolve_runs(shape, in, state);
  stride(static_cast<int64_t>(runs_.size()) * shape.value_heads, [&](int64_t item, int thread) {
    const Run& run = runs_[item / shape.value_heads];
    float* room = scratch(thread, 2 * run.count + delta_scratch(shape.key_dim, shape.value_dim));
    delta_head(run, static_cast<int>(item % shape.value_heads), shape, in, state, chunked, room, out);
  });
}

}  // namespace paceline::ops::cpu
