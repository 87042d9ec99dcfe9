// clang-format off: the vector type comes before what is written with it
#include "ops/cpu/simd/vec_avx512.h"
#include "ops/cpu/simd/table.h"
// clang-format on

namespace paceline::ops::cpu {

const VectorKernels& avx512_kernels() { return kTable; }

}  // namespace paceline::ops::cpu
