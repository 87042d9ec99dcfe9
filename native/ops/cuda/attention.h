#pragma once

#include "ops/cuda/runtime.h"
#include "ops/ops.h"

namespace paceline::ops::cuda {

struct AttentionJob {
  Rows rows;
  AttentionInput in;
  KvCache cache;
  float* query;   // scratch [rows, heads, head_dim]: queries after norm and RoPE
  uint16_t* out;  // [rows, heads * head_dim] bfloat16
};

bool attention_fits(int head_dim);
void run_attention(const Launch& where, const AttentionJob& job);

}  // namespace paceline::ops::cuda
