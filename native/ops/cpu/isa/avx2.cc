// clang-format off: the vector type comes before what is written with it
#include "ops/cpu/simd/vec_avx2.h"
#include "ops/cpu/simd/table.h"
// clang-format on

namespace paceline::ops::cpu {

const VectorKernels& avx2_kernels() { return kTable; }

}  // namespace paceline::ops::cpu
