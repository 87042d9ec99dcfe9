// How the ranks of a tensor-parallel model add up their partial products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/ops.h"

namespace paceline::parallel {

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Allocates the rank's buffers, for messages of up to `max_count` floats. Once a rank, on the rank's own thread, before any
  // other call.
  virtual void attach(int rank, ops::Ops& ops, int64_t max_count) = 0;

  // Where the rank writes its partial of its next all-reduce. Valid until that all-reduce.
  virtual float* partial(int rank) = 0;

  // target[i] += sum over ranks of partial[i], in rank order, in float32: the same bits on every rank. Every rank has a target of
  // its own and they hold the same values. All ranks make the same calls in the same order. Throws Aborted when another rank
  // failed.
  virtual void all_reduce(int rank, int64_t count, float* target) = 0;

  // Releases every rank that waits, now and later, with Aborted. Callable from any thread.
  virtual void abort() noexcept = 0;

  // Bytes of the buffers, all ranks together.
  virtual size_t bytes() const = 0;
};

// For ranks that are threads of this process with host memory. `spins`: pauses a rank spins at a barrier before it sleeps.
// One rank alone has no barrier and nothing to wait for.
std::unique_ptr<Communicator> make_shared_memory_communicator(int ranks, int spins);

}  // namespace paceline::parallel
