#include "base/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace paceline {
namespace {

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  if (bytes < kHugePage) {
    const size_t padded = round_up(bytes, kAlignment);
    data_ = std::aligned_alloc(kAlignment, padded);
    check<OutOfMemoryError>(data_ != nullptr, "cannot allocate ", bytes, " bytes");
    std::memset(data_, 0, padded);
    return;
  }
  // One huge page more than needed, trimmed so that the buffer starts on a huge-page boundary.
  const size_t wanted = round_up(bytes, kHugePage);
  void* raw = mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check<OutOfMemoryError>(raw != MAP_FAILED, "cannot map ", bytes, " bytes: ", std::strerror(errno));
  char* start = static_cast<char*>(raw);
  char* aligned = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(start), kHugePage));
  const size_t before = static_cast<size_t>(aligned - start);
  if (before > 0) munmap(start, before);
  if (before < kHugePage) munmap(aligned + wanted, kHugePage - before);
  madvise(aligned, wanted, MADV_HUGEPAGE);  // advice only: a kernel without huge pages serves small ones
  data_ = aligned;
  mapped_ = wanted;
}

void AlignedBuffer::release() {
  if (mapped_ > 0) {
    munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
  data_ = nullptr;
  size_ = mapped_ = 0;
}

void AlignedBuffer::reserve(size_t bytes) {
  if (bytes <= size_) return;
  release();
  *this = AlignedBuffer(bytes);
}

}  // namespace paceline
