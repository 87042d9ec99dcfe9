// AMX tile instructions. The compiler's own intrinsics (gcc 12) do not say that they read and write memory, and lose stores in
// front of them; these do. Palette: C in tiles 0-3, A in 4-5, B in 6-7.
#pragma once

#include <cstdint>

namespace paceline::ops::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};
};

// The shape of all eight tiles for `rows` rows of activations, 1..16; holds on this thread until release_tiles().
inline void configure_tiles(int rows) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.bytes_per_row[tile] = 64;
    config.rows[tile] = static_cast<uint8_t>(tile < 6 ? rows : 16);
  }
  asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
}

// A thread that sleeps with live tiles keeps 8 KB of state to save at every switch.
inline void release_tiles() { asm volatile("tilerelease" ::: "memory"); }

template <int kTile>
inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}

template <int kTile>
inline void load_tile(const void* from, int64_t stride) {  // bytes from a row to the next
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
inline void store_tile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
}

template <int kC, int kA, int kB>
inline void multiply_tiles() {  // C += A * B
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace paceline::ops::cpu
