// Every vector kernel, and the table of them. Included after one of the vec_*.h files by isa/<name>.cc.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/simd/math.h"
#include "ops/cpu/unroll.h"
// The kernels need the helpers above.
#include "ops/cpu/simd/argmax.h"
#include "ops/cpu/simd/convolution.h"
#include "ops/cpu/simd/delta_net.h"
#include "ops/cpu/simd/elementwise.h"
#include "ops/cpu/simd/rms_norm.h"
// These build on the kernels before them.
#include "ops/cpu/simd/attention.h"
#include "ops/cpu/simd/delta_chunked.h"

namespace paceline::ops::cpu {
namespace {

constexpr VectorKernels kTable = {
    .rms_norm = rms_norm,
    .swiglu = swiglu,
    .widen_bf16 = widen_bf16,
    .argmax = argmax,
    .add = add,
    .store_key_value = store_key_value,
    .attend = attend,
    .convolve = convolve,
    .delta_sequential = delta_sequential,
    .delta_chunked = delta_chunked,
};

}  // namespace
}  // namespace paceline::ops::cpu
