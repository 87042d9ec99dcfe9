// The operations of one forward pass on one rank, as the model families see them. A backend implements this interface in a folder
// of its own (ops/cpu, ops/cuda); the families in model/ are written once against it.
//
// Conventions. All pointers are memory of the backend. A "row" is one token at work in a step: (slot, position, token). Matrices
// are row-major, [rows, columns]. Hidden states and product outputs are float32, the inputs of products are bfloat16. Batch
// invariance is part of the contract: what an operation computes for a row depends on that row (and its slot's cache) alone,
// bitwise, never on how many other rows share the step or where they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/types.h"

namespace paceline::ops {

// One step's rows, already in the backend's memory. Rows of one prompt stand together in ascending position.
struct Rows {
  int count;                // rows in this step
  const int32_t* slot;      // [count]
  const int32_t* position;  // [count], 0-based position in the slot's sequence
  const int32_t* token;     // [count], token ids
};

// A piece of a (possibly fused) linear layer as it stands in the checkpoint: `rows` output features by `cols` input features.
struct LinearPart {
  const void* data;    // element (0, 0) of this rank's slice, in host memory
  DType dtype;         // kBF16, kF16, kF32 or kF8E4M3
  int64_t rows;        // output features
  int64_t cols;        // input features
  int64_t row_stride;  // bytes from a row to the next
  const float* scale;  // block scales of the WHOLE tensor, [.., scale_cols]; null unless dtype is kF8E4M3
  int64_t scale_cols;  // row length of `scale`
  int64_t row_offset;  // where the slice starts in the whole tensor: its scale block row is (row_offset + n) / 128
  int64_t col_offset;  // likewise for columns
};

// A packed weight. Parts keep their own type, so that a fused product may mix FP8 and BF16.
class Linear {
 public:
  virtual ~Linear() = default;
  virtual int64_t rows() const = 0;  // output features, over all parts
  virtual int64_t cols() const = 0;  // input features
  virtual size_t bytes() const = 0;  // what one pass over it reads
};

struct RandomMatrix {                  // a weight that exists for the time its product takes
  std::span<const int64_t> part_rows;  // output features, part by part
  int64_t cols;                        // input features
  DType dtype;                         // kBF16, or kF8E4M3 with block scales of its own
  uint64_t seed;
};

struct LinearJob {  // one of several products of the same input
  const Linear* weight;
  float* y;  // [rows, ld_y]
  int ld_y;  // at least weight->rows()
};

class Buffer {  // zeroed backend memory
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t size() const = 0;
};

struct KvCache {    // one attention layer on one rank
  uint16_t* key;    // bfloat16 [slots, kv_heads, context, head_dim]
  uint16_t* value;  // bfloat16 [slots, kv_heads, context, head_dim]
  int kv_heads;
  int context;  // positions a slot can hold
  int head_dim;
};

struct AttentionInput {
  const float*
      qkv;    // [rows, ld]: queries, then keys, then values; with `gated` each query head is [q(head_dim) | gate(head_dim)]
  int ld;     // row length of qkv, in elements
  int heads;  // query heads on this rank
  bool gated;
  const float* q_norm;  // [head_dim], the multiplier itself (families with (1 + w) add the one at load)
  const float* k_norm;  // [head_dim]
  float eps;
  int rotary_dim;     // leading dimensions of a head that rotate (rotate-half within them)
  const float* rope;  // [context, rotary_dim]: cos (rotary_dim / 2) then sin (rotary_dim / 2) of each position
};

struct DeltaNetShape {
  int key_heads, value_heads;  // on this rank; value_heads is a multiple of key_heads
  int key_dim, value_dim;      // of one head
  int kernel;                  // convolution taps
  constexpr int channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};

struct DeltaNetState {  // one linear-attention layer on one rank
  float* recurrent;     // [slots, value_heads, value_dim, key_dim]: transposed, a state column is contiguous
  float* conv;          // [slots, kernel - 1, channels]: the last inputs of the convolution, oldest first
};

struct DeltaNetInput {
  const float* qkv;  // [rows, ld_qkv]: q | k | v channels before the convolution
  const float* z;    // [rows, ld_z]: value_heads * value_dim, the output gate
  const float* b;    // [rows, ld_ba]: value_heads
  const float* a;    // [rows, ld_ba]: value_heads
  int ld_qkv, ld_z, ld_ba;
  const float* conv_weight;  // [channels, kernel]
  const float* dt_bias;      // [value_heads]
  const float* a_log;        // [value_heads]
  const float* norm;         // [value_dim], plain weight
  float eps;
};

class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::unique_ptr<Linear> pack(std::span<const LinearPart> parts) = 0;  // throws base Error on an unsupported type
  virtual std::unique_ptr<Buffer> allocate(size_t bytes) = 0;
  // Random numbers made where they lie, the same for the same seed: a weight whose products of inputs around one are around one,
  // and a table of bfloat16 around one, which the backend keeps. Null where the backend does not make them.
  virtual std::unique_ptr<Linear> make_random(const RandomMatrix&) { return nullptr; }
  virtual const void* make_random_table(int64_t count, uint64_t seed) {
    (void)count, (void)seed;
    return nullptr;
  }
  // Where the backend reads a table that lies in host memory and stays there: the table itself, or a copy on the device.
  virtual const void* place(const void* host, size_t bytes) {
    (void)bytes;
    return host;
  }
  virtual void upload(void* to, const void* from_host, size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, size_t bytes) = 0;

  // hidden[i] = table[token[i]], widened. table: [vocabulary, width] in host or backend memory, of `dtype`.
  virtual void embed(const Rows& rows, const void* table, DType dtype, int width, float* hidden) = 0;

  // out = bf16(x * rsqrt(mean(x^2) + eps) * weight); x [rows, width] float32, weight [width] float32 (the multiplier itself).
  virtual void rms_norm(const float* x, const float* weight, float eps, int rows, int width, uint16_t* out) = 0;

  // y[rows, ld_y] = x[rows, cols] * W^T, float32 accumulation, ld_y >= W.rows(). x is bfloat16, its row length W.cols().
  virtual void linear(const Linear& weight, const uint16_t* x, int rows, float* y, int ld_y) = 0;

  // Several products of one input, in any order.
  virtual void linears(std::span<const LinearJob> jobs, const uint16_t* x, int rows) {
    for (const LinearJob& job : jobs) linear(*job.weight, x, rows, job.y, job.ld_y);
  }

  // out[rows, width] = bf16(silu(gate) * up) where gate_up is [rows, 2 * width]: gate then up. What a product has just written
  // there may be left undefined.
  virtual void swiglu(const float* gate_up, int rows, int width, uint16_t* out) = 0;

  // The same for the product gate_up = x * W^T with W.rows() = 2 * width. scratch: [rows, 2 * width], left undefined.
  virtual void gated_linear(const Linear& gate_up, const uint16_t* x, int rows, float* scratch, uint16_t* out) {
    const int width = static_cast<int>(gate_up.rows() / 2);
    linear(gate_up, x, rows, scratch, 2 * width);
    swiglu(scratch, rows, width, out);
  }

  // Head norms, RoPE, store of keys and values at each row's position, causal attention over the row's own slot up to its
  // position (in fixed splits of 256 positions), output gate if `gated`. out: bfloat16 [rows, heads * head_dim].
  virtual void attention(const Rows& rows, const AttentionInput& in, const KvCache& cache, uint16_t* out) = 0;

  // Convolution, gates, recurrence, gated norm for all rows, and the update of the state. A row at position 0 starts from a zero
  // state. `chunked` picks the chunked form for rows of long prompts. out: bfloat16 [rows, value_heads * value_dim].
  virtual void delta_net(const Rows& rows, const DeltaNetShape& shape, const DeltaNetInput& in, const DeltaNetState& state,
                         bool chunked, uint16_t* out) = 0;

  // out[i] = in[index[i]] for `count` rows of float32 `width` wide: picks the rows whose logits are wanted.
  virtual void gather(const float* in, const int32_t* index, int count, int width, float* out) = 0;

  // Largest value of each row and its lowest index: value [rows], index [rows] (local to this rank's columns).
  virtual void argmax(const float* x, int rows, int width, int ld, float* value, int32_t* index) = 0;

  // target[i] = ((target[i] + partial[0][i]) + partial[1][i]) + ...: the arithmetic of an all-reduce, on any part of the range. A
  // lone partial that a product has just written may be left undefined.
  virtual void add_partials(std::span<const float* const> partials, int64_t count, float* target) = 0;

  // Does `work`, which calls this backend alone, touches no host memory and issues the same operations on the same memory
  // whenever `key` is the same. A backend may record it once and replay the record.
  virtual void replay(uint64_t key, const std::function<void()>& work) {
    (void)key;
    work();
  }

  // Whether it does record: then every kind of step had better run before anyone waits for one.
  virtual bool records() const { return false; }

  virtual void synchronize() = 0;  // returns when all work issued so far is done
};

}  // namespace paceline::ops
