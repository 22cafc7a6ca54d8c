// Sizes and inputs of the selective scan, and the final sums of its gradients: of dB and dC over the blocks that share
// them, of the steps' over tiles of channels, of dA_log and dD over chunks. Grid: a block for each head's dA_log and
// dD, then two warps a token.
#include "gpu/ops/ssd/ssd_scan.cuh"
#include "gpu/runtime/launch.cuh"

namespace afterglow::scan {

using namespace device;

namespace {

template <class T>
struct ScanSinks {
  SinkOf<T> B, C;
  Sink dt, A_log, D, log_decay, lag;
};

/// Writes the sum of one kind of step gradient for one token and head. The gradient of lag was computed at the token
/// before it.
template <class T>
__device__ void put_step(const ScanSizes& s, const ScanSinks<T>& out, int kind, std::size_t row, int h, float sum) {
  if (kind == 0 && out.dt.wanted()) out.dt.put(row, h, sum);
  if (kind == 1 && out.log_decay.wanted()) out.log_decay.put(row, h, sum);
  if (kind < 2 || !out.lag.wanted()) return;
  const int t = int(row % s.length);
  if (t == 0) out.lag.put(row, h, 0.0f);
  if (t + 1 < s.length) out.lag.put(row + 1, h, sum);
}

constexpr int rows_of_block = threads / 64;  // one warp for a row of dB and dC, another for that of the steps
constexpr int parts_in_flight = 4;

// Adds the parts: the first blocks each head's dA_log and dD, the others rows. One launch, because later kernels wait
// for all of them.
template <int kinds, class T>
__global__ void __launch_bounds__(threads) sum_kernel(ScanSizes s, ScanParts from, ScanSinks<T> out) {
  wait_for_previous_kernel();
  __shared__ float sums[32];
  const int scalars = 2 * s.heads, block = int(blockIdx.x);
  if (block < scalars) {
    const float* parts = from.scalars + block * std::size_t(from.several);
    float sum = 0;
    for (int i = int(threadIdx.x); i < from.several; i += threads) sum += parts[i];
    sum = block_sum(sum, sums);
    const Sink& to = block % 2 == 0 ? out.A_log : out.D;
    if (threadIdx.x == 0 && to.wanted()) to.put(unsigned(block / 2), sum);
    return;
  }
  const std::size_t row = (block - scalars) * std::size_t{rows_of_block} + threadIdx.x / 64;
  if (row >= std::size_t(s.batch) * s.length) return;
  const int lane = int(threadIdx.x) % 32;
  if (threadIdx.x / 32 % 2 == 1) {
    for (int number = lane; number < kinds * s.heads; number += 32) {
      const int h = number % s.heads, kind = number / s.heads;
      const float* parts = from.steps + (row * s.heads + h) * from.tiles * kinds + kind;
      float sum = 0;
      for (int tile = 0; tile < from.tiles; tile += parts_in_flight) {
        float some[parts_in_flight];
        unrolled<parts_in_flight>([&](int k) { some[k] = tile + k < from.tiles ? parts[(tile + k) * kinds] : 0.0f; });
        unrolled<parts_in_flight>([&](int k) { sum += some[k]; });
      }
      put_step(s, out, kind, row, h, sum);
    }
    return;
  }
  for (int number = lane; from.shared != nullptr && number < s.groups * s.states; number += 32) {
    const int group = number / s.states, own = number % s.states;
    if (own >= s.own_states) continue;
    const float* parts = from.shared + (row * s.groups + group) * from.sharers * 2 * s.states + own;
    float to_B = 0, to_C = 0;
#pragma unroll 8
    for (int part = 0; part < from.sharers; ++part) {
      to_B += parts[part * 2 * s.states];
      to_C += parts[(part * 2 + 1) * s.states];
    }
    // One thread, B first: B and C may be the same numbers.
    const unsigned column = unsigned(group * s.group_states + own);
    if (out.B.wanted()) out.B.put(row, column, to_B);
    if (out.C.wanted()) out.C.put(row, column, to_C);
  }
}

}  // namespace

ScanSizes sizes_of(const ScanInputs& in, int chunk) {
  ScanSizes s{};
  s.batch = int(in.x.shape[0]);
  s.length = int(in.x.shape[1]);
  s.heads = in.heads;
  s.groups = in.groups;
  s.width = int(in.x.elements() / (std::int64_t{s.batch} * s.length * s.heads));
  s.states = s.group_states = s.own_states = int(in.B.elements() / (std::int64_t{s.batch} * s.length * s.groups));
  s.passes = 1;
  s.chunks = (s.length + chunk - 1) / chunk;
  s.group = s.heads / s.groups;
  return s;
}

ScanSteps steps_of(const ScanInputs& in) {
  return {rows_of(in.dt), rows_of(in.log_decay), rows_of(in.lag), in.A_log.as<float>(), in.D.as<float>()};
}

void sum_parts(cudaStream_t stream, const ScanSizes& s, const ScanInputs& in, const ScanParts& parts, int pass,
               const ScanGrads& out) {
  const auto summed = [&](const Grad& grad) {
    Sink sink = sink_of(grad);
    sink.accumulate |= pass > 0;
    return sink;
  };
  with_stored_type(in.B, [&]<class T>(T) {
    ScanSinks<T> sinks{sink_of<T>(out.B),     sink_of<T>(out.C), summed(out.dt), summed(out.A_log), Sink{},
                       summed(out.log_decay), summed(out.lag)};
    sinks.B.rows = from_column(sinks.B.rows, pass * s.states);
    sinks.C.rows = from_column(sinks.C.rows, pass * s.states);
    if (pass == 0) sinks.D = sink_of(out.D);
    const auto kernel = in.lag.defined() ? sum_kernel<step_kinds<true>, T> : sum_kernel<step_kinds<false>, T>;
    const unsigned blocks = blocks_for(std::int64_t{s.batch} * s.length, rows_of_block);
    launch(kernel, 2 * unsigned(s.heads) + blocks, threads, 0, stream, s, parts, sinks);
  });
}

}  // namespace afterglow::scan
