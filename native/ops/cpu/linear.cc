// y = x * W^T over all parts of a packed weight.
#include <cstring>

#include "base/error.h"
#include "ops/cpu/cpu_ops.h"

namespace paceline::ops::cpu {
namespace {

constexpr int kTileRows = 16;  // rows of an AMX tile: rows beyond a multiple of it are copied and padded

bool needs_padding(const PackedPart& part) { return part.lead != 0 || part.depth != part.cols; }

void copy_rows(const uint16_t* x, int64_t rows, const PackedPart& part, uint16_t* out) {
  for (int64_t row = 0; row < rows; ++row, x += part.cols, out += part.depth) {
    std::memset(out, 0, static_cast<size_t>(part.lead) * sizeof(uint16_t));
    std::memcpy(out + part.lead, x, static_cast<size_t>(part.cols) * sizeof(uint16_t));
    std::memset(out + part.lead + part.cols, 0, static_cast<size_t>(part.depth - part.lead - part.cols) * sizeof(uint16_t));
  }
}

}  // namespace

// Fills prepared_ with the inputs in every form that the parts ask for: as they are where the packed depth is the true one.
void CpuOps::prepare(const PackedLinear& weight, const uint16_t* x, int rows) {
  const bool has_tail = rows > kTileRows && rows % kTileRows != 0;
  prepared_.clear();
  std::vector<const PackedPart*> forms;
  int64_t elements = 0;
  for (const PackedPart& part : weight.parts()) {
    const auto same = [&](const PackedPart* form) { return form->lead == part.lead && form->depth == part.depth; };
    if (std::any_of(forms.begin(), forms.end(), same)) continue;
    forms.push_back(&part);
    elements += part.depth * ((needs_padding(part) ? rows : 0) + (has_tail ? kTileRows : 0));
  }
  padded_.reserve(static_cast<size_t>(elements) * sizeof(uint16_t));
  auto* free_space = padded_.as<uint16_t>();
  for (const PackedPart* part : forms) {
    Prepared form{part->lead, part->depth, x, part->cols, nullptr};
    if (needs_padding(*part)) {
      copy_rows(x, rows, *part, free_space);
      form.x = free_space;
      form.ld_x = part->depth;
      free_space += rows * part->depth;
    }
    if (has_tail) {
      const int first = rows / kTileRows * kTileRows;
      copy_rows(x + first * part->cols, rows - first, *part, free_space);
      std::memset(free_space + (rows - first) * part->depth, 0,
                  static_cast<size_t>((first + kTileRows - rows) * part->depth) * 2);
      form.tail = free_space;
      free_space += kTileRows * part->depth;
    }
    prepared_.push_back(form);
  }
}

void CpuOps::linear(const Linear& weight, const uint16_t* x, int rows, float* y, int ld_y) {
  const auto& packed = static_cast<const PackedLinear&>(weight);
  check<ConfigError>(ld_y >= packed.rows(), "ld_y is ", ld_y, ", must be at least the ", packed.rows(), " output features");
  if (rows <= 0) return;
  prepare(packed, x, rows);
  const int64_t padded_rows = (rows + kTileRows - 1) / kTileRows * kTileRows;
  team_.run([&](int thread, int) {
    for (const BlockSpan& span : packed.spans(thread)) {
      const PackedPart& part = packed.parts()[span.part];
      const Prepared& form = *std::find_if(prepared_.begin(), prepared_.end(), [&](const Prepared& candidate) {
        return candidate.lead == part.lead && candidate.depth == part.depth;
      });
      linear_({.part = &part,
               .x = form.x,
               .ld_x = form.ld_x,
               .rows = rows,
               .tail = form.tail,
               .y = y + part.column,
               .ld_y = ld_y,
               .first = span.first,
               .last = span.last,
               .ragged = scratch(thread, padded_rows * kBlockColumns)});
    }
  });
}

}  // namespace paceline::ops::cpu
