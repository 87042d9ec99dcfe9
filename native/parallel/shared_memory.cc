// The communicator between threads: each rank leaves its partial in a buffer of its own, and whoever needs the sum reads all of
// them.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "parallel/barrier.h"
#include "parallel/communicator.h"

namespace paceline::parallel {
namespace {

// Up to here every rank sums the whole message: one barrier. Beyond, each sums a slice and copies the others': two barriers, less
// work.
constexpr int64_t kWholeMessage = 64 * 1024;  // floats

class SoloCommunicator final : public Communicator {
 public:
  void attach(int, ops::Ops& ops, int64_t max_count) override {
    ops_ = &ops;
    buffer_ = ops.allocate(static_cast<size_t>(max_count) * sizeof(float));
  }
  float* partial(int) override { return static_cast<float*>(buffer_->data()); }
  void all_reduce(int, int64_t count, float* target) override {
    const float* own = partial(0);
    ops_->add_partials({&own, 1}, count, target);
  }
  void abort() noexcept override {}
  size_t bytes() const override { return buffer_ ? buffer_->size() : 0; }

 private:
  ops::Ops* ops_ = nullptr;
  std::unique_ptr<ops::Buffer> buffer_;
};

class SharedMemoryCommunicator final : public Communicator {
 public:
  SharedMemoryCommunicator(int ranks, int spins) : barrier_(ranks, spins), ranks_(static_cast<size_t>(ranks)) {}

  void attach(int rank, ops::Ops& ops, int64_t max_count) override {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    own.ops = &ops;
    for (auto& buffer : own.buffers) buffer = ops.allocate(static_cast<size_t>(max_count) * sizeof(float));
  }

  float* partial(int rank) override {
    const Rank& own = ranks_[static_cast<size_t>(rank)];
    return data(own, own.turn);
  }

  // Two buffers take turns. A rank writes a buffer again only after the barrier of the all-reduce in between, which no rank
  // reaches before it has read what it needs from the first: one barrier a message is enough.
  void all_reduce(int rank, int64_t count, float* target) override {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    const int turn = own.turn;
    own.turn = 1 - turn;
    own.targets[static_cast<size_t>(turn)] = target;
    own.ops->synchronize();
    barrier_.arrive_and_wait();
    if (count <= kWholeMessage) {
      add(own, turn, 0, count, target);
    } else {
      reduce_by_slices(rank, turn, count, target);
    }
  }

  void abort() noexcept override { barrier_.abort(); }

  size_t bytes() const override {
    size_t sum = 0;
    for (const Rank& rank : ranks_) {
      for (const auto& buffer : rank.buffers) sum += buffer ? buffer->size() : 0;
    }
    return sum;
  }

 private:
  struct alignas(64) Rank {
    ops::Ops* ops = nullptr;
    std::array<std::unique_ptr<ops::Buffer>, 2> buffers;
    std::array<float*, 2> targets = {};  // by turn, as the buffers: the other ranks read them after the barrier
    int turn = 0;
  };

  static float* data(const Rank& rank, int turn) { return static_cast<float*>(rank.buffers[static_cast<size_t>(turn)]->data()); }

  void add(Rank& own, int turn, int64_t begin, int64_t count, float* target) {
    std::vector<const float*> partials(ranks_.size());
    for (size_t r = 0; r < ranks_.size(); ++r) partials[r] = data(ranks_[r], turn) + begin;
    own.ops->add_partials(partials, count, target + begin);
  }

  // The sum of a slice is the same arithmetic on the same numbers whoever does it, so the bits are those of the whole message.
  void reduce_by_slices(int rank, int turn, int64_t count, float* target) {
    const auto begin_of = [&](size_t r) { return count * static_cast<int64_t>(r) / static_cast<int64_t>(ranks_.size()); };
    Rank& own = ranks_[static_cast<size_t>(rank)];
    const int64_t begin = begin_of(static_cast<size_t>(rank));
    add(own, turn, begin, begin_of(static_cast<size_t>(rank) + 1) - begin, target);
    own.ops->synchronize();
    barrier_.arrive_and_wait();
    // A neighbour changes its target again only in the next all-reduce, behind a barrier that this rank has yet to reach.
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (r == static_cast<size_t>(rank)) continue;
      const int64_t from = begin_of(r);
      std::memcpy(target + from, ranks_[r].targets[static_cast<size_t>(turn)] + from,
                  static_cast<size_t>(begin_of(r + 1) - from) * sizeof(float));
    }
  }

  Barrier barrier_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::unique_ptr<Communicator> make_shared_memory_communicator(int ranks, int spins) {
  if (ranks == 1) return std::make_unique<SoloCommunicator>();
  return std::make_unique<SharedMemoryCommunicator>(ranks, spins);
}

}  // namespace paceline::parallel
