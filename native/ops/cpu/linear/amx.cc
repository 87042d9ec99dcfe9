// Products on AMX-BF16: tiles of 16 rows x 32 input features x 16 columns, two by two. One reduction order (ascending input
// features, one accumulator an output) serves every number of rows.
#include <immintrin.h>

#include "ops/cpu/linear/amx_tiles.h"
#include "ops/cpu/linear/driver.h"
#include "ops/cpu/linear/fp8_vbmi.h"

namespace paceline::ops::cpu {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileDepth = 32;        // input features of one tile product
constexpr int64_t kRowBytes = 128;    // of a packed bfloat16 block: a pair of input features of 32 columns
constexpr int64_t kPanelDepth = 512;  // input features whose weights (32 KB) stay in the first-level cache for all rows
constexpr int64_t kPrefetch = 4096;   // bytes ahead of the bfloat16 stream

// Likewise of the FP8 stream, into the second-level cache only: the widened block and the sums want the first.
constexpr int64_t kFp8Prefetch = 8192;

struct Chunk {  // up to 16 rows
  const uint16_t* x;
  int64_t ld_x;
  Target y;
};

// The chunk that starts at row 16 * index. The last rows % 16 rows come from the padded copy, and their sums go through scratch.
inline Chunk chunk_of(const LinearCall& call, int64_t block, int index) {
  const int row = index * kTileRows;
  const bool padded = call.tail != nullptr && row + kTileRows > call.rows;
  const bool whole = (block + 1) * kBlockColumns <= call.part->rows && !padded;
  Chunk chunk;
  chunk.x = padded ? call.tail : call.x + row * call.ld_x;
  chunk.ld_x = padded ? call.part->depth : call.ld_x;
  chunk.y = whole ? Target{call.y + row * call.ld_y + block * kBlockColumns, call.ld_y}
                  : Target{call.ragged + row * kBlockColumns, kBlockColumns};
  return chunk;
}

inline void prefetch_step(const uint8_t* w) {
  for (int64_t line = 0; line < 16 * kRowBytes; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(w + kPrefetch + line), _MM_HINT_T0);
}

// C += A * B for `depth` input features of bfloat16 weights; one or two chunks of rows.
template <bool kTwo>
inline void multiply_panel(const uint8_t* w, int64_t depth, const Chunk* chunks, int64_t k, bool prefetch) {
  for (int64_t done = 0; done < depth; done += kTileDepth, w += 16 * kRowBytes) {
    if (prefetch) prefetch_step(w);
    load_tile<6>(w, kRowBytes);
    load_tile<7>(w + 64, kRowBytes);
    load_tile<4>(chunks[0].x + k + done, chunks[0].ld_x * 2);
    multiply_tiles<0, 4, 6>();
    multiply_tiles<1, 4, 7>();
    if constexpr (kTwo) {
      load_tile<5>(chunks[1].x + k + done, chunks[1].ld_x * 2);
      multiply_tiles<2, 5, 6>();
      multiply_tiles<3, 5, 7>();
    }
  }
}

template <bool kTwo>
inline void zero_sums() {
  zero_tile<0>();
  zero_tile<1>();
  if constexpr (kTwo) {
    zero_tile<2>();
    zero_tile<3>();
  }
}

template <bool kTwo>
inline void load_sums(const Target& first, const Target& second) {
  load_tile<0>(first.data, first.ld * 4);
  load_tile<1>(first.data + 16, first.ld * 4);
  if constexpr (kTwo) {
    load_tile<2>(second.data, second.ld * 4);
    load_tile<3>(second.data + 16, second.ld * 4);
  }
}

template <bool kTwo>
inline void store_sums(const Target& first, const Target& second) {
  store_tile<0>(first.data, first.ld * 4);
  store_tile<1>(first.data + 16, first.ld * 4);
  if constexpr (kTwo) {
    store_tile<2>(second.data, second.ld * 4);
    store_tile<3>(second.data + 16, second.ld * 4);
  }
}

template <bool kTwo>
inline void bf16_chunks(const LinearCall& call, int64_t block, int index, int64_t k, int64_t depth) {
  const Chunk chunks[2] = {chunk_of(call, block, index), chunk_of(call, block, kTwo ? index + 1 : index)};
  const uint8_t* w = call.part->data + (block * call.part->depth + k) * kBlockColumns * 2;
  if (k == 0) {
    zero_sums<kTwo>();
  } else {
    load_sums<kTwo>(chunks[0].y, chunks[1].y);
  }
  multiply_panel<kTwo>(w, depth, chunks, k, index == 0);
  store_sums<kTwo>(chunks[0].y, chunks[1].y);
}

inline void bf16_block(const LinearCall& call, int64_t block, int chunks) {
  const int64_t depth = call.part->depth, step = chunks <= 2 ? depth : kPanelDepth;
  for (int64_t k = 0; k < depth; k += step) {
    const int64_t length = depth - k < step ? depth - k : step;
    for (int index = 0; index < chunks; index += 2) {
      if (index + 1 < chunks) {
        bf16_chunks<true>(call, block, index, k, length);
      } else {
        bf16_chunks<false>(call, block, index, k, length);
      }
    }
  }
}

// Partial sums of one block of 128 that wait to be scaled: adding them one step late keeps the loads clear of the tile stores.
struct Pending {
  const float* sums;  // [rows, 32] for each target, the second 16 rows further
  Target target[2];
  int rows[2] = {0, 0};
  BlockScale scale;
};

inline void add_pending(Pending& pending) {
  const __m512 factor[2] = {column_scales(pending.scale, 0), column_scales(pending.scale, 16)};
  for (int which = 0; which < 2; ++which) {
    const float* sums = pending.sums + which * kTileRows * kBlockColumns;
    for (int row = 0; row < pending.rows[which]; ++row) {
      for (int j = 0; j < 2; ++j) {
        float* out = pending.target[which].data + row * pending.target[which].ld + 16 * j;
        const __m512 sum = _mm512_loadu_ps(sums + row * kBlockColumns + 16 * j);
        _mm512_storeu_ps(out, _mm512_fmadd_ps(sum, factor[j], _mm512_loadu_ps(out)));
      }
    }
    pending.rows[which] = 0;
  }
}

// The 128 x 32 codes of a scale block as bfloat16 in tile order.
inline void widen_scale_block(const uint8_t* w, uint8_t* out) {
  const Fp8Table table;
  for (int k = 0; k < kScaleBlock / 2; ++k, w += 64, out += kRowBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(w + kFp8Prefetch), _MM_HINT_T1);
    __m512i first, second;
    table.widen(w, first, second);
    _mm512_store_si512(out, first);
    _mm512_store_si512(out + 64, second);
  }
}

template <bool kTwo>
inline void fp8_chunks(const Chunk* chunks, const uint8_t* widened, int64_t k, float* sums) {
  zero_sums<kTwo>();
  multiply_panel<kTwo>(widened, kScaleBlock, chunks, k, false);
  store_sums<kTwo>(Target{sums, kBlockColumns}, Target{sums + kTileRows * kBlockColumns, kBlockColumns});
}

inline void fp8_block(const LinearCall& call, int64_t block, int chunks, int tile_rows) {
  const PackedPart& part = *call.part;
  alignas(64) uint8_t widened[2][kScaleBlock * kBlockColumns * 2];
  alignas(64) float sums[2][2 * kTileRows * kBlockColumns];
  for (int index = 0; index < chunks; ++index) {
    const Target y = chunk_of(call, block, index).y;
    for (int row = 0; row < tile_rows; ++row) memset(y.data + row * y.ld, 0, kBlockColumns * sizeof(float));
  }
  const int64_t scale_blocks = part.depth / kScaleBlock;
  const uint8_t* w = part.data + block * part.depth * kBlockColumns;
  Pending pending;
  int turn = 0;
  widen_scale_block(w, widened[0]);
  for (int64_t kb = 0; kb < scale_blocks; ++kb) {
    if (kb + 1 < scale_blocks) widen_scale_block(w + (kb + 1) * kScaleBlock * kBlockColumns, widened[(kb + 1) % 2]);
    const float* scale = part.scale + 2 * (block * scale_blocks + kb);
    for (int index = 0; index < chunks; index += 2, turn ^= 1) {
      const bool two = index + 1 < chunks;
      const Chunk pair[2] = {chunk_of(call, block, index), chunk_of(call, block, two ? index + 1 : index)};
      if (two) {
        fp8_chunks<true>(pair, widened[kb % 2], kb * kScaleBlock, sums[turn]);
      } else {
        fp8_chunks<false>(pair, widened[kb % 2], kb * kScaleBlock, sums[turn]);
      }
      add_pending(pending);
      pending = {sums[turn], {pair[0].y, pair[1].y}, {tile_rows, two ? tile_rows : 0}, {scale[0], scale[1], part.split[block]}};
    }
  }
  add_pending(pending);
}

// Copies what went through scratch: every row of a ragged block, the padded rows of a whole one.
inline void copy_scratch(const LinearCall& call, int64_t block) {
  const int64_t left = call.part->rows - block * kBlockColumns;
  const bool whole = left >= kBlockColumns;
  if (whole && call.tail == nullptr) return;
  const int first = whole ? call.rows / kTileRows * kTileRows : 0;
  for (int row = first; row < call.rows; ++row) {
    memcpy(call.y + row * call.ld_y + block * kBlockColumns, call.ragged + row * kBlockColumns,
           static_cast<size_t>(whole ? kBlockColumns : left) * sizeof(float));
  }
}

}  // namespace

void amx_linear(const LinearCall& call) {
  const int tile_rows = call.rows < kTileRows ? call.rows : kTileRows;
  const int chunks = (call.rows + kTileRows - 1) / kTileRows;
  configure_tiles(tile_rows);
  for (int64_t block = call.first; block < call.last; ++block) {
    if (call.part->fp8) {
      fp8_block(call, block, chunks, tile_rows);
    } else {
      bf16_block(call, block, chunks);
    }
    copy_scratch(call, block);
  }
  release_tiles();
}

}  // namespace paceline::ops::cpu
