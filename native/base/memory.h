// Zeroed, aligned memory that asks for huge pages where it is large enough to have them.
#pragma once

#include <cstddef>
#include <utility>

namespace paceline {

// Pages are mapped on first touch, so the thread that fills a part of the buffer decides where it lives.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;  // bytes: a cache line, an AVX-512 register, a tile row
  static constexpr size_t kHugePage = size_t{2} << 20;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes);  // throws OutOfMemoryError
  ~AlignedBuffer() { release(); }
  AlignedBuffer(AlignedBuffer&& other) noexcept { swap(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  // Makes room for `bytes`, keeping nothing of the contents; a buffer that is already large enough stays as it is.
  void reserve(size_t bytes);

  void* data() { return data_; }
  const void* data() const { return data_; }
  template <typename T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  void release();
  void swap(AlignedBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
  }

  void* data_ = nullptr;
  size_t size_ = 0;    // bytes asked for
  size_t mapped_ = 0;  // bytes mapped; 0 where the heap holds the buffer
};

}  // namespace paceline
