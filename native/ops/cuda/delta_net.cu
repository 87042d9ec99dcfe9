// Gated DeltaNet, sequential in the rows of a prompt, in one kernel: convolution, l2 norms, gates, recurrence, gated norm. A
// block serves one value head over a run of rows of one slot; blocks whose row does not start a run leave at once.
//
// The value heads of a key head each compute that head's convolution; its state is written by whichever of their blocks comes
// last, when all have read it.
#include "ops/cuda/delta_net.h"

namespace paceline::ops::cuda {
namespace {

constexpr int kMaxTaps = 8;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kChunk = 16;  // rows whose queries, keys and values wait in shared memory
constexpr int kMaxDim = 256;

__device__ bool starts_run(const Rows& rows, int row) { return row == 0 || rows.slot[row] != rows.slot[row - 1]; }

__device__ int end_of_run(const Rows& rows, int row) {
  int end = row + 1;
  while (end < rows.count && rows.slot[end] == rows.slot[row]) ++end;
  return end;
}

struct Run {
  int head, key_head;
  int first, end;  // rows
  int slot;
  bool fresh;  // starts at position 0
};

__host__ __device__ int chunk_of(int rows) {
  return rows < kChunk ? rows : kChunk;
}  // little memory lets a block start beside one of another kernel

struct Shared {    // of a chunk; rows of mixed: query [key_dim], key [key_dim], value [value_dim]
  float* mixed;    // [chunk, width]
  float* out;      // [chunk, value_dim]
  float* gate;     // [chunk, value_dim]: the norm's weight times SiLU(z)
  float* decay;    // [chunk]
  float* beta;     // [chunk]
  float* k_dot_q;  // [chunk]
  int width;
};

size_t shared_bytes(const DeltaNetShape& shape, int chunk) {
  return sizeof(float) * static_cast<size_t>(chunk) * static_cast<size_t>(2 * shape.key_dim + 3 * shape.value_dim + 3);
}

__device__ Shared lay_out(const DeltaNetShape& shape, int chunk, float* memory) {
  Shared s;
  s.width = 2 * shape.key_dim + shape.value_dim;
  s.mixed = memory;
  s.out = s.mixed + chunk * s.width;
  s.gate = s.out + chunk * shape.value_dim;
  s.decay = s.gate + chunk * shape.value_dim;
  s.beta = s.decay + chunk;
  s.k_dot_q = s.beta + chunk;
  return s;
}

// The channel of the layer behind element i of a head's [query, key, value].
__device__ int channel_of(const DeltaNetShape& shape, const Run& run, int i) {
  const int dk = shape.key_dim, keys = shape.key_heads * dk;
  if (i < dk) return run.key_head * dk + i;
  if (i < 2 * dk) return keys + run.key_head * dk + i - dk;
  return 2 * keys + run.head * shape.value_dim + i - 2 * dk;
}

// Convolution and SiLU of rows [first, first + count) of the run; a thread a channel. The window before `first` comes from the
// inputs of earlier rows of this run, or from the state.
__device__ void convolve(const DeltaNetJob& job, const Run& run, int first, int count, const Shared& s) {
  const int channels = job.shape.channels(), taps = job.shape.kernel;
  const float* state = job.state.conv + static_cast<size_t>(run.slot) * (taps - 1) * channels;
  for (int i = threadIdx.x; i < s.width; i += kThreads) {
    const int channel = channel_of(job.shape, run, i);
    const float* input = job.in.qkv + channel;
    float window[kMaxTaps] = {}, weight[kMaxTaps] = {};
#pragma unroll
    for (int t = 0; t < kMaxTaps; ++t) {
      if (t < taps) weight[t] = job.in.conv_weight[static_cast<size_t>(channel) * taps + t];
      if (t >= taps - 1) continue;
      const int row = first - (taps - 1) + t;
      if (row >= run.first) {
        window[t] = input[static_cast<size_t>(row) * job.in.ld_qkv];
      } else if (!run.fresh) {
        window[t] = state[static_cast<size_t>(row - run.first + taps - 1) * channels + channel];
      }
    }
    for (int row = 0; row < count; ++row) {
      const float newest = input[static_cast<size_t>(first + row) * job.in.ld_qkv];
      float sum = 0;
#pragma unroll
      for (int t = 0; t < kMaxTaps; ++t) {
        if (t == taps - 1) window[t] = newest;
        if (t < taps) sum = fmaf(weight[t], window[t], sum);
      }
      s.mixed[row * s.width + i] = silu(sum);
#pragma unroll
      for (int t = 0; t + 1 < kMaxTaps; ++t) window[t] = window[t + 1];
    }
  }
}

// The last inputs of the run become the state of channels [from, to) of this head's [query, key, value].
__device__ void keep_window(const DeltaNetJob& job, const Run& run, int from, int to) {
  const int channels = job.shape.channels(), taps = job.shape.kernel, rows = run.end - run.first;
  float* state = job.state.conv + static_cast<size_t>(run.slot) * (taps - 1) * channels;
  for (int i = from + static_cast<int>(threadIdx.x); i < to; i += kThreads) {
    const int channel = channel_of(job.shape, run, i);
    float window[kMaxTaps - 1];
#pragma unroll
    for (int t = 0; t < kMaxTaps - 1; ++t) {
      if (t >= taps - 1) break;
      const int row = rows - (taps - 1) + t;  // within the run; negative: rows before it
      if (row >= 0) {
        window[t] = job.in.qkv[static_cast<size_t>(run.first + row) * job.in.ld_qkv + channel];
      } else {
        window[t] = run.fresh ? 0.0f : state[static_cast<size_t>(row + taps - 1) * channels + channel];
      }
    }
#pragma unroll
    for (int t = 0; t < kMaxTaps - 1; ++t) {
      if (t < taps - 1) state[static_cast<size_t>(t) * channels + channel] = window[t];
    }
  }
}

// Whether this block is the last of its key head's that has read the old windows. By one thread, when the whole block has.
__device__ bool read_last(const DeltaNetJob& job, const Run& run) {
  uint32_t* arrivals = job.arrivals + static_cast<size_t>(run.first) * job.shape.key_heads + run.key_head;
  __threadfence();
  const bool last = atomicAdd(arrivals, 1u) == static_cast<uint32_t>(job.shape.value_heads / job.shape.key_heads - 1);
  if (last) *arrivals = 0;
  __threadfence();
  return last;
}

// By the last threads first: the convolution has less for them to do.
__device__ void prepare_gates(const DeltaNetJob& job, const Run& run, int first, int count, const Shared& s) {
  const int dv = job.shape.value_dim;
  for (int i = kThreads - 1 - static_cast<int>(threadIdx.x); i < count * dv; i += kThreads) {
    const int row = i / dv, j = i % dv;
    s.gate[i] = job.in.norm[j] * silu(job.in.z[static_cast<size_t>(first + row) * job.in.ld_z + run.head * dv + j]);
  }
}

// l2 norms of queries and keys, and the gates; a warp a row.
__device__ void prepare(const DeltaNetJob& job, const Run& run, int first, int count, const Shared& s) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, dk = job.shape.key_dim;
  for (int row = warp; row < count; row += kWarps) {
    float* q = s.mixed + row * s.width;
    float* k = q + dk;
    const size_t at = static_cast<size_t>(first + row) * job.in.ld_ba + run.head;
    const float a = job.in.a[at] + job.in.dt_bias[run.head], b = job.in.b[at], a_log = job.in.a_log[run.head];
    float qq = 0, kk = 0;
    for (int i = lane; i < dk; i += 32) qq = fmaf(q[i], q[i], qq), kk = fmaf(k[i], k[i], kk);
    const float qn = rsqrtf(warp_sum(qq) + 1e-6f) * rsqrtf(static_cast<float>(dk)), kn = rsqrtf(warp_sum(kk) + 1e-6f);
    float kq = 0;
    for (int i = lane; i < dk; i += 32) {
      q[i] *= qn, k[i] *= kn;
      kq = fmaf(k[i], q[i], kq);
    }
    kq = warp_sum(kq);
    if (lane != 0) continue;
    const float softplus = a > 20.0f ? a : log1pf(expf(a));
    s.decay[row] = expf(-expf(a_log) * softplus);
    s.beta[row] = sigmoid(b);
    s.k_dot_q[row] = kq;
  }
}

// Sums of kCount values over a warp: afterwards value[0] of lane l is the sum of value l / (32 / kCount).
template <int kCount, int kOffset = 16>
__device__ __forceinline__ void scatter_sums(float* value, int lane) {
  if constexpr (kCount > 1) {
    constexpr int kHalf = kCount / 2;
    const bool upper = (lane & kOffset) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float sent = upper ? value[i] : value[i + kHalf], kept = upper ? value[i + kHalf] : value[i];
      value[i] = kept + __shfl_xor_sync(0xffffffffu, sent, kOffset);
    }
    scatter_sums<kHalf, kOffset / 2>(value, lane);
  } else if constexpr (kOffset > 0) {
    value[0] += __shfl_xor_sync(0xffffffffu, value[0], kOffset);
    scatter_sums<1, kOffset / 2>(value, lane);
  }
}

template <int kPerLane>
struct alignas(kPerLane >= 4 ? 16 : 4 * kPerLane) Cell {
  float value[kPerLane];
};

// Past the first-level cache, which is not told of what other multiprocessors wrote before this block began.
template <int kPerLane>
__device__ __forceinline__ Cell<kPerLane> load_cell(const float* from) {
  Cell<kPerLane> cell;
  if constexpr (kPerLane >= 4) {
#pragma unroll
    for (int i = 0; i < kPerLane; i += 4) {
      const float4 quad = __ldcg(reinterpret_cast<const float4*>(from + i));
      cell.value[i] = quad.x, cell.value[i + 1] = quad.y, cell.value[i + 2] = quad.z, cell.value[i + 3] = quad.w;
    }
  } else if constexpr (kPerLane == 2) {
    const float2 pair = __ldcg(reinterpret_cast<const float2*>(from));
    cell.value[0] = pair.x, cell.value[1] = pair.y;
  } else {
    cell.value[0] = __ldcg(from);
  }
  return cell;
}

// kColumns state columns of a warp, a lane holding kPerLane neighbouring elements of each.
template <int kPerLane, int kColumns>
struct Columns {
  Cell<kPerLane> cell[kColumns];

  __device__ __forceinline__ void load(const float* state, int first, int count, int lane, bool fresh) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      cell[c] = {};
      if (!fresh && first + c < count) {
        cell[c] = load_cell<kPerLane>(state + (static_cast<size_t>(first + c) * 32 + lane) * kPerLane);
      }
    }
  }

  __device__ __forceinline__ void store(float* state, int first, int count, int lane) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (first + c < count)
        *reinterpret_cast<Cell<kPerLane>*>(state + (static_cast<size_t>(first + c) * 32 + lane) * kPerLane) = cell[c];
    }
  }

  // S *= decay; d = (v - S k) beta; S += d k^T; out = S q, as decay S q + d (k . q).
  __device__ __forceinline__ void step(const Shared& s, int row, int dk, int first, int dv, int lane) {
    const float* mixed = s.mixed + row * s.width;
    const auto q = *reinterpret_cast<const Cell<kPerLane>*>(mixed + lane * kPerLane);
    const auto k = *reinterpret_cast<const Cell<kPerLane>*>(mixed + dk + lane * kPerLane);
    float with_k[kColumns], with_q[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      with_k[c] = with_q[c] = 0;
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) {
        with_k[c] = fmaf(cell[c].value[j], k.value[j], with_k[c]);
        with_q[c] = fmaf(cell[c].value[j], q.value[j], with_q[c]);
      }
    }
    scatter_sums<kColumns>(with_k, lane);
    scatter_sums<kColumns>(with_q, lane);
    constexpr int kShare = 32 / kColumns;  // lanes that hold the sum of one column
    const int column = first + lane / kShare;
    const float decay = s.decay[row], value = column < dv ? mixed[2 * dk + column] : 0.0f;
    const float delta = (value - decay * with_k[0]) * s.beta[row];
    if (lane % kShare == 0 && column < dv) s.out[row * dv + column] = fmaf(delta, s.k_dot_q[row], decay * with_q[0]);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float d = __shfl_sync(0xffffffffu, delta, c * kShare);
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) cell[c].value[j] = fmaf(d, k.value[j], cell[c].value[j] * decay);
    }
  }
};

__device__ void store_chunk(const DeltaNetJob& job, const Run& run, int first, int count, const Shared& s) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, dv = job.shape.value_dim;
  for (int i = warp; i < count; i += kWarps) {
    const float* value = s.out + i * dv;
    float squares = 0;
    for (int j = lane; j < dv; j += 32) squares = fmaf(value[j], value[j], squares);
    const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(dv) + job.in.eps);
    const float* gate = s.gate + i * dv;
    uint16_t* out = job.out + (static_cast<size_t>(first + i) * job.shape.value_heads + run.head) * dv;
    for (int j = lane; j < dv; j += 32) out[j] = narrow(value[j] * factor * gate[j]);
  }
}

// To the second-level cache while the predecessor ends: state columns from `first` on, which later passes read, and what the
// convolution and the gates read beside the products.
__device__ void prefetch_run(const DeltaNetJob& job, const Run& run, const float* state, int first, int width) {
  constexpr int kLine = 32;  // floats
  const int dk = job.shape.key_dim, end = job.shape.value_dim * dk, channels = job.shape.channels(), taps = job.shape.kernel;
  for (int i = first * dk + static_cast<int>(threadIdx.x) * kLine; i < end; i += kThreads * kLine) prefetch(state + i);
  const float* window = job.state.conv + static_cast<size_t>(run.slot) * (taps - 1) * channels;
  for (int i = static_cast<int>(threadIdx.x) * 8; i < width; i += kThreads * 8) {
    const int channel = channel_of(job.shape, run, i);
    prefetch(job.in.conv_weight + static_cast<size_t>(channel) * taps);
    for (int t = 0; t < taps - 1; ++t) prefetch(window + static_cast<size_t>(t) * channels + channel);
  }
  if (threadIdx.x == 0) prefetch(job.in.dt_bias + run.head), prefetch(job.in.a_log + run.head);
}

template <int kPerLane>
__global__ void __launch_bounds__(kThreads, 3) delta_net(const __grid_constant__ DeltaNetJob job) {
  constexpr int kColumns =
      kPerLane == 8 ? 4 : 8;  // few enough for three blocks on a multiprocessor, which hide each other's waits
  extern __shared__ __align__(16) float memory[];
  __shared__ bool keeps_all;  // of the key head's windows: this block was the last to read the old ones
  let_next_start();
  const int begin = static_cast<int>(blockIdx.y);
  if (!starts_run(job.rows, begin)) {
    wait_for_inputs();
    return;
  }
  const DeltaNetShape& shape = job.shape;
  const int head = static_cast<int>(blockIdx.x), lane = threadIdx.x % 32, column = static_cast<int>(threadIdx.x) / 32 * kColumns;
  const int dk = shape.key_dim, dv = shape.value_dim;
  const Run run = {head,
                   head / (shape.value_heads / shape.key_heads),
                   begin,
                   end_of_run(job.rows, begin),
                   job.rows.slot[begin],
                   job.rows.position[begin] == 0};
  const Shared s = lay_out(shape, chunk_of(job.rows.count), memory);
  float* state = job.state.recurrent + (static_cast<size_t>(run.slot) * shape.value_heads + head) * static_cast<size_t>(dv) * dk;
  Columns<kPerLane, kColumns> columns;
  columns.load(state, column, dv, lane, run.fresh);
  prefetch_run(job, run, state, kWarps * kColumns, s.width);
  wait_for_inputs();
  for (int first = run.first; first < run.end; first += kChunk) {
    const int count = min(kChunk, run.end - first);
    convolve(job, run, first, count, s);
    prepare_gates(job, run, first, count, s);
    __syncthreads();
    if (first == run.first && threadIdx.x == kThreads - 1) keeps_all = read_last(job, run);
    prepare(job, run, first, count, s);
    __syncthreads();
    for (int pass = column; pass < dv; pass += kWarps * kColumns) {
      if (first != run.first || pass != column) columns.load(state, pass, dv, lane, run.fresh && first == run.first);
      for (int row = 0; row < count; ++row) columns.step(s, row, dk, pass, dv, lane);
      columns.store(state, pass, dv, lane);
    }
    __syncthreads();
    store_chunk(job, run, first, count, s);
    if (first + kChunk < run.end) __syncthreads();
  }
  keep_window(job, run, keeps_all ? 0 : 2 * dk, s.width);
}

template <int kPerLane>
void start(const Launch& where, const DeltaNetJob& job) {
  const size_t bytes = shared_bytes(job.shape, chunk_of(job.rows.count));
  check(cudaFuncSetAttribute(delta_net<kPerLane>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes(job.shape, kChunk))),
        "cudaFuncSetAttribute(delta_net)");
  const dim3 grid(static_cast<unsigned>(job.shape.value_heads), static_cast<unsigned>(job.rows.count));
  launch(where, delta_net<kPerLane>, grid, dim3(kThreads), bytes, job);
}

}  // namespace

bool delta_net_fits(const DeltaNetShape& shape) {
  const int dk = shape.key_dim;
  const bool key = dk == 32 || dk == 64 || dk == 128 || dk == 256;
  return key && shape.value_dim % 8 == 0 && shape.value_dim <= kMaxDim && shape.kernel >= 2 && shape.kernel <= kMaxTaps;
}

void run_delta_net(const Launch& where, const DeltaNetJob& job) {
  switch (job.shape.key_dim / 32) {
    case 1:
      return start<1>(where, job);
    case 2:
      return start<2>(where, job);
    case 4:
      return start<4>(where, job);
    default:
      return start<8>(where, job);
  }
}

}  // namespace paceline::ops::cuda
