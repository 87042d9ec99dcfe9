#include "model/blocks.h"

namespace paceline::model {
namespace {

void normalise(const Context& context, int rows, const float* weight) {
  const ModelConfig& c = context.config;
  context.ops.rms_norm(context.scratch.hidden, weight, c.rms_norm_eps, rows, c.hidden_size, context.scratch.normed);
}

// hidden += narrow * W^T, summed over the ranks.
void add_product(const Context& context, int rows, const ops::Linear& weight) {
  const int hidden_size = context.config.hidden_size;
  const int rank = context.shard.rank;
  context.ops.linear(weight, context.scratch.narrow, rows, context.communicator.partial(rank), hidden_size);
  context.communicator.all_reduce(rank, int64_t{rows} * hidden_size, context.scratch.hidden);
}

// A run of a step's rows, as a step of its own.
ops::Rows slice(const ops::Rows& rows, int begin, int count) {
  return {.count = count, .slot = rows.slot + begin, .position = rows.position + begin, .token = rows.token + begin};
}

}  // namespace

void run_attention(const Context& context, const StepRows& rows, int layer, const AttentionWeights& weights) {
  const ModelConfig& c = context.config;
  const Scratch& scratch = context.scratch;
  const int ld = static_cast<int>(weights.qkv->rows());
  normalise(context, rows.all.count, weights.input_norm);
  context.ops.linear(*weights.qkv, scratch.normed, rows.all.count, scratch.wide, ld);
  const ops::AttentionInput in = {
      .qkv = scratch.wide,
      .ld = ld,
      .heads = context.shard.heads,
      .gated = weights.gated,
      .q_norm = weights.q_norm,
      .k_norm = weights.k_norm,
      .eps = c.rms_norm_eps,
      .rotary_dim = c.rotary_dim,
      .rope = context.state.rope(),
  };
  context.ops.attention(rows.all, in, context.state.kv(layer), scratch.narrow);
  add_product(context, rows.all.count, *weights.o);
}

void run_delta_net(const Context& context, const StepRows& rows, int layer, const DeltaNetWeights& weights) {
  const ops::DeltaNetShape& shape = context.shard.linear;
  const Scratch& scratch = context.scratch;
  const int count = rows.all.count;
  const int ld_qkv = shape.channels();
  const int ld_z = shape.value_heads * shape.value_dim;
  const int ld_ba = 2 * shape.value_heads;
  float* qkv = scratch.wide;
  float* z = qkv + int64_t{count} * ld_qkv;
  float* ba = z + int64_t{count} * ld_z;
  normalise(context, count, weights.input_norm);
  const ops::LinearJob products[] = {{weights.in_qkv, qkv, ld_qkv}, {weights.in_z, z, ld_z}, {weights.in_ba, ba, ld_ba}};
  context.ops.linears(products, scratch.normed, count);
  const auto run = [&](int begin, int rows_of_form, bool chunked) {
    if (rows_of_form == 0) return;
    const ops::DeltaNetInput in = {
        .qkv = qkv + int64_t{begin} * ld_qkv,
        .z = z + int64_t{begin} * ld_z,
        .b = ba + int64_t{begin} * ld_ba,
        .a = ba + int64_t{begin} * ld_ba + shape.value_heads,
        .ld_qkv = ld_qkv,
        .ld_z = ld_z,
        .ld_ba = ld_ba,
        .conv_weight = weights.conv,
        .dt_bias = weights.dt_bias,
        .a_log = weights.a_log,
        .norm = weights.norm,
        .eps = context.config.rms_norm_eps,
    };
    context.ops.delta_net(slice(rows.all, begin, rows_of_form), shape, in, context.state.linear(layer), chunked,
                          scratch.narrow + int64_t{begin} * ld_z);
  };
  run(0, rows.chunked, true);
  run(rows.chunked, count - rows.chunked, false);
  add_product(context, count, *weights.out);
}

void run_mlp(const Context& context, const StepRows& rows, const MlpWeights& weights) {
  const Scratch& scratch = context.scratch;
  normalise(context, rows.all.count, weights.norm);
  context.ops.gated_linear(*weights.gate_up, scratch.normed, rows.all.count, scratch.wide, scratch.narrow);
  add_product(context, rows.all.count, *weights.down);
}

}  // namespace paceline::model
