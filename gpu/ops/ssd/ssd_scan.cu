// The selective scan, h_t = decay_t h_{t-1} + dt_t x_t B_t^T, y_t = h_t C_t + D x_t. Long sequences and those of 17 to
// 64 tokens run by chunks (ssd_chunks.cu); the others, and scans that resume from a state, run the recurrence here. A
// thread keeps four states in registers, the threads of a group share one channel. In the trapezoidal rule a token
// enters a second time, late: the carried state holds it with both weights, its own output with the first.
// Latency-bound: the steps of a sequence depend on each other. All gradients run by chunks. Grid: tiles of channels of
// all heads.
#include "gpu/ops/ssd/ssd_scan.cuh"
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;
using namespace scan;

namespace {

constexpr int scan_threads = 128;                  // threads that scan along the sequence, side by side over channels
constexpr std::int64_t max_recurrent_tokens = 16;  // up to which the recurrence is as fast as one chunk

struct ScanThread {
  int b, h, p, lane, state;  // batch, head, channel, lane in its group, first of its four states
};

/// The position of thread `own` among those that scan the block's channels.
template <int lanes>
__device__ ScanThread scan_thread_of(const ScanSizes& s, int block, int tile_width, int own) {
  const int tiles = (s.width + tile_width - 1) / tile_width;
  const int pair = block / tiles, lane = own % lanes;
  return {pair / s.heads, pair % s.heads, block % tiles * tile_width + own / lanes, lane, 4 * lane};
}

__device__ float rate_of(const ScanArrays& a, int h) { return a.A_log != nullptr ? expf(a.A_log[h]) : 0.0f; }

__device__ void load_states(float (&to)[4], const float* from, int states, int first) {
  unrolled<4>([&](int i) { to[i] = first + i < states ? from[first + i] : 0.0f; });
}

// The recurrence of the block's channels of one head. `state` is read with `resume`, and written if not null. The loads
// of later tokens do not depend on the state and overlap.
template <int lanes, bool lagged>
__global__ void __launch_bounds__(scan_threads)
    scan_kernel(ScanSizes s, ScanArrays in, float* y, float* state, bool resume) {
  wait_for_previous_kernel(resume);
  const ScanThread w = scan_thread_of<lanes>(s, int(blockIdx.x), scan_threads / lanes, int(threadIdx.x));
  const bool inside = w.p < s.width;
  const int channel = w.h * s.width + min(w.p, s.width - 1), shared = w.h / s.group * s.states;
  const float rate = rate_of(in, w.h), skip = in.D != nullptr ? in.D[w.h] : 0.0f;
  float* kept = state + ((std::size_t(w.b) * s.heads + w.h) * s.width + w.p) * s.states;
  float h[4] = {};
  if (resume && inside) load_states(h, kept, s.states, w.state);
#pragma unroll 4
  for (int t = 0; t < s.length; ++t) {
    const std::size_t row = std::size_t(w.b) * s.length + t;
    const float dt = in.dt.data != nullptr ? in.dt.at(row, w.h) : 1.0f;
    const float late = lagged && t + 1 < s.length ? in.lag.at(row + 1, w.h) : 0.0f;
    const float decay = expf(lagged ? in.log_decay.at(row, w.h) : -rate * dt), x = in.x.at(row, channel);
    float B[4], C[4], answer = 0;
    load_states(B, &in.B.at(row, shared), s.states, w.state);
    load_states(C, &in.C.at(row, shared), s.states, w.state);
    unrolled<4>([&](int i) {
      h[i] = fmaf(decay, h[i], x * dt * B[i]);
      answer = fmaf(h[i], C[i], answer);
      if (lagged) h[i] = fmaf(x * late, B[i], h[i]);
    });
    answer = sum_of_lanes<lanes>(answer);
    if (inside && w.lane == 0) y[(row * s.heads + w.h) * s.width + w.p] = answer + skip * x;
  }
  if (state == nullptr || !inside) return;
  unrolled<4>([&](int i) {
    if (w.state + i < s.states) kept[w.state + i] = h[i];
  });
}

/// Calls body with the lanes of a channel, and whether there is a lag, as types.
template <class Body>
void with_kind(const ScanInputs& in, const ScanSizes& s, const Body& body) {
  if (s.states > 128) {
    throw Error(ExitCode::failure, "the GPU's scan takes at most 128 states a channel, and there are " +
                                       std::to_string(s.states) + "; use --device cpu");
  }
  with_capacity<4, 8, 16, 32>((s.states + 3) / 4, [&](auto lanes) {
    with_either<true, false>(in.lag.defined(), [&](auto lagged) { body(lanes, lagged); });
  });
}

}  // namespace

void CudaBackend::ssd_scan(const ScanInputs& in, const Tensor& y, const Tensor& state, bool resume) {
  if (in.x.elements() == 0) return;
  if (goes_by_chunks(in)) {
    auto* memory = static_cast<float*>(operand_memory(std::size_t(plan(in).operands)));
    scan_by_chunks(stream(), in, precision_ == Precision::fp32, memory, y, state, resume);
  } else if (is_one_chunk(in) && in.x.shape[1] > max_recurrent_tokens && !state.defined()) {
    scan_alone(stream(), in, precision_ == Precision::fp32, y);
  } else {
    const ScanSizes s = sizes_of(in, 1);
    with_kind(in, s, [&](auto lanes, auto lagged) {
      const unsigned blocks = unsigned(s.batch * s.heads) * blocks_for(s.width, scan_threads / lanes);
      launch(scan_kernel<lanes(), lagged()>, blocks, scan_threads, 0, stream(), s, arrays_of(in), y.as<float>(),
             state.as<float>(), resume);
    });
    return launched("ssd_scan", resume);
  }
  launched("ssd_scan");
}

Plan CudaBackend::plan(const ScanInputs& in) const {
  if (in.x.elements() == 0) return {.workspace = 1};
  const bool is_narrow = precision_ == Precision::bf16 && stores_narrow(in);
  return {.stored = is_narrow ? Storage::narrow : Storage::wide,
          .workspace = is_one_chunk(in) ? alone_workspace(in) : chunk_workspace(in),
          .operands = goes_by_chunks(in) ? chunk_memory(in) * std::int64_t(sizeof(float)) : 0};
}

void CudaBackend::ssd_scan_backward(const ScanInputs& in, const Tensor& dy, const Tensor& workspace,
                                    const ScanGrads& out) {
  if (in.x.elements() == 0) return;
  const auto run = is_one_chunk(in) ? scan_alone_backward : scan_by_chunks_backward;
  run(stream(), in, precision_ == Precision::fp32, dy, workspace.as<float>(), out);
  launched("ssd_scan_backward");
}

}  // namespace afterglow
