// clang-format off: the vector type comes before what is written with it
#include "ops/cpu/simd/vec_portable.h"
#include "ops/cpu/simd/table.h"
// clang-format on

namespace paceline::ops::cpu {

const VectorKernels& portable_kernels() { return kTable; }

}  // namespace paceline::ops::cpu
