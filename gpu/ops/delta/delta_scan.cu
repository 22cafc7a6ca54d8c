// The delta-rule family, S_t = decay_t S_{t-1} + beta_t k_t (v_t - S'^T k_t)^T, y_t = S_t^T q_t (equations:
// core/backend/cpu/delta_scan.cpp). Long sequences with one decay a head or none run by chunks (delta_chunks.cu), long
// gated linear attention too (gla_chunks.cu); everything else runs the recurrence here. The columns of a head's state
// are independent, so a group of threads carries one column along the whole sequence, eight numbers a thread. The
// gradient scans the columns forward again, keeping the errors e = v - S'^T k and the state before every chunk, and
// backward, keeping dS^T k and the flow into every chunk; given these, rows are independent too, and all chunks run in
// parallel, row by row. Grid: tiles of columns of all heads, or tiles of rows of all chunks.
#include "core/backend/delta.h"
#include "gpu/ops/delta/delta_chunks.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr int block_threads = 128;
constexpr int held = 8;    // numbers of a row or column in a thread's registers
constexpr int chunk = 32;  // tokens between kept states
constexpr int piece = 8;   // tokens whose states a thread of the row kernel holds

struct DeltaSizes {
  int batch, length, heads, keys, width, chunks;
  float scale;
  bool corrects, fades, by_channel;
};

struct DeltaArrays {
  const float *q, *k, *v, *beta, *g, *dy;
};

/// errors, du [B,T,H,P]; states, flows [B,H,chunks,K,P]; dg [B,T,H,K], for one g a head.
struct DeltaWorkspace {
  float *errors, *du, *states, *flows, *dg;
};

__device__ float decay_of(const DeltaSizes& s, const DeltaArrays& in, std::size_t row, int i) {
  if (!s.fades) return 1.0f;
  return expf(in.g[s.by_channel ? row * s.keys + i : row]);
}

/// A column of the state of one head, spread over `lanes` threads: thread `lane` holds rows lane, lane + lanes, ...
template <int lanes>
struct Columns {
  static constexpr int keys = lanes * held;              // maximum
  static constexpr int columns = block_threads / lanes;  // of a block
  static constexpr int tile = lanes < 32 ? 16 : 8;       // tokens in shared memory at a time

  struct Tokens {
    float k[tile][keys], q[tile][keys], decay[tile][keys];
    float value[tile][columns];  // v or dy
    float beta[tile];
  };

  int b, h, column, lane, p;
  __device__ explicit Columns(const DeltaSizes& s) {
    const int tiles = (s.width + columns - 1) / columns, pair = int(blockIdx.x) / tiles;
    b = pair / s.heads;
    h = pair % s.heads;
    column = int(threadIdx.x) / lanes;
    lane = int(threadIdx.x) % lanes;
    p = int(blockIdx.x) % tiles * columns + column;
  }
  __device__ std::size_t row(const DeltaSizes& s, int t) const { return (std::size_t(b) * s.length + t) * s.heads + h; }
  __device__ std::size_t kept(const DeltaSizes& s, int c) const {
    return ((std::size_t(b) * s.heads + h) * s.chunks + c) * s.keys * s.width;
  }
  /// Loads tokens [begin, begin + count) into shared memory; rows behind the last key are zero.
  __device__ void load(Tokens& to, const DeltaSizes& s, const DeltaArrays& in, const float* values, int begin,
                       int count) const {
    __syncthreads();
    for (int i = int(threadIdx.x); i < count * keys; i += block_threads) {
      const int step = i / keys, key = i % keys;
      const std::size_t at = row(s, begin + step);
      const bool inside = key < s.keys;
      to.k[step][key] = inside ? in.k[at * s.keys + key] : 0.0f;
      to.q[step][key] = inside ? in.q[at * s.keys + key] : 0.0f;
      to.decay[step][key] = inside ? decay_of(s, in, at, key) : 0.0f;
    }
    for (int i = int(threadIdx.x); i < count * columns; i += block_threads) {
      const int step = i / columns, c = i % columns, at = p - column + c;
      to.value[step][c] = at < s.width ? values[row(s, begin + step) * s.width + at] : 0.0f;
    }
    for (int step = int(threadIdx.x); step < count; step += block_threads)
      to.beta[step] = s.corrects ? in.beta[row(s, begin + step)] : 1.0f;
    __syncthreads();
  }
  __device__ void get(float (&x)[held], const float* from, const DeltaSizes& s) const {
    unrolled<held>([&](int j) {
      const int i = lane + lanes * j;
      x[j] = i < s.keys && p < s.width ? from[std::size_t(i) * s.width + p] : 0.0f;
    });
  }
  __device__ void put(const float (&x)[held], float* to, const DeltaSizes& s) const {
    unrolled<held>([&](int j) {
      const int i = lane + lanes * j;
      if (i < s.keys && p < s.width) to[std::size_t(i) * s.width + p] = x[j];
    });
  }
};

// From the first token to the last: y, or, if `keep` has memory, the errors and the states before chunks.
template <int lanes>
__global__ void __launch_bounds__(block_threads)
    delta_kernel(DeltaSizes s, DeltaArrays in, float* y, float* state, bool resume, DeltaWorkspace keep) {
  using Scan = Columns<lanes>;
  __shared__ typename Scan::Tokens tokens;
  const Scan w(s);
  const bool writes = w.lane == 0 && w.p < s.width;
  float x[held] = {};
  float* last = state + (std::size_t(w.b) * s.heads + w.h) * s.keys * s.width;
  if (resume) w.get(x, last, s);
  for (int begin = 0; begin < s.length; begin += Scan::tile) {
    const int count = min(Scan::tile, s.length - begin);
    w.load(tokens, s, in, in.v, begin, count);
    if (keep.states != nullptr && begin % chunk == 0) w.put(x, keep.states + w.kept(s, begin / chunk), s);
    for (int step = 0; step < count; ++step) {
      float read = 0;
      unrolled<held>([&](int j) {
        x[j] *= tokens.decay[step][w.lane + lanes * j];
        read += x[j] * tokens.k[step][w.lane + lanes * j];
      });
      const float error = tokens.value[step][w.column] - (s.corrects ? sum_of_lanes<lanes>(read) : 0.0f);
      const float u = tokens.beta[step] * error;
      float out = 0;
      unrolled<held>([&](int j) {
        x[j] += tokens.k[step][w.lane + lanes * j] * u;
        out += x[j] * tokens.q[step][w.lane + lanes * j];
      });
      const std::size_t at = w.row(s, begin + step) * s.width + w.p;
      if (y != nullptr) out = sum_of_lanes<lanes>(out);
      if (writes && y != nullptr) y[at] = s.scale * out;
      if (writes && keep.errors != nullptr) keep.errors[at] = error;
    }
  }
  if (state != nullptr) w.put(x, last, s);
}

// From the last token to the first: dv, dS^T k, and the flows into chunks.
template <int lanes>
__global__ void __launch_bounds__(block_threads)
    delta_backward_kernel(DeltaSizes s, DeltaArrays in, DeltaWorkspace keep, Sink dv) {
  using Scan = Columns<lanes>;
  __shared__ typename Scan::Tokens tokens;
  const Scan w(s);
  const bool writes = w.lane == 0 && w.p < s.width;
  float flow[held] = {};
  for (int begin = (s.length - 1) / Scan::tile * Scan::tile; begin >= 0; begin -= Scan::tile) {
    const int count = min(Scan::tile, s.length - begin);
    w.load(tokens, s, in, in.dy, begin, count);
    if ((begin + count) % chunk == 0 || begin + count == s.length)
      w.put(flow, keep.flows + w.kept(s, begin / chunk), s);
    for (int step = count - 1; step >= 0; --step) {
      const float dy = s.scale * tokens.value[step][w.column];
      float du = 0;
      unrolled<held>([&](int j) {
        flow[j] += tokens.q[step][w.lane + lanes * j] * dy;
        du += flow[j] * tokens.k[step][w.lane + lanes * j];
      });
      du = sum_of_lanes<lanes>(du);
      const float dvalue = tokens.beta[step] * du, correction = s.corrects ? dvalue : 0.0f;
      unrolled<held>([&](int j) {
        flow[j] -= tokens.k[step][w.lane + lanes * j] * correction;
        flow[j] *= tokens.decay[step][w.lane + lanes * j];
      });
      if (!writes) continue;
      const std::size_t row = w.row(s, begin + step);
      keep.du[row * s.width + w.p] = du;
      if (dv.wanted()) dv.put(row, unsigned(w.p), dvalue);
    }
  }
}

/// A row of the state of one head within one chunk, spread over `lanes` threads.
template <int lanes>
struct RowScan {
  std::size_t kept;  // of the chunk's state
  int b, h, i, lane, begin, end;

  __device__ explicit RowScan(const DeltaSizes& s) {
    constexpr int rows = block_threads / lanes;
    const int tiles = (s.keys + rows - 1) / rows;
    const int unit = int(blockIdx.x) / tiles, c = unit % s.chunks, pair = unit / s.chunks;
    b = pair / s.heads;
    h = pair % s.heads;
    i = int(blockIdx.x) % tiles * rows + int(threadIdx.x) / lanes;
    lane = int(threadIdx.x) % lanes;
    begin = c * chunk;
    end = min(s.length, begin + chunk);
    kept = std::size_t(unit) * s.keys * s.width;
  }
  __device__ std::size_t row(const DeltaSizes& s, int t) const { return (std::size_t(b) * s.length + t) * s.heads + h; }
  __device__ void get(float (&x)[held], const float* from, const DeltaSizes& s) const {
    unrolled<held>([&](int j) {
      const int p = lane + lanes * j;
      x[j] = i < s.keys && p < s.width ? from[std::size_t(i) * s.width + p] : 0.0f;
    });
  }
  /// This thread's columns of a row [P].
  __device__ void columns(float (&x)[held], const float* from, const DeltaSizes& s) const {
    unrolled<held>([&](int j) { x[j] = lane + lanes * j < s.width ? from[lane + lanes * j] : 0.0f; });
  }
};

/// A token's numbers for one row.
struct RowToken {
  float k, q, decay, beta;
  __device__ RowToken(const DeltaSizes& s, const DeltaArrays& in, std::size_t row, int i) {
    const bool inside = i < s.keys;
    k = inside ? in.k[row * s.keys + i] : 0.0f;
    q = inside ? in.q[row * s.keys + i] : 0.0f;
    decay = inside ? decay_of(s, in, row, i) : 0.0f;
    beta = s.corrects ? in.beta[row] : 1.0f;
  }
};

// All chunks and rows in parallel: dq, dk, and dg of every channel. The states within a chunk are recomputed from its
// first one, eight tokens at a time.
template <int lanes>
__global__ void __launch_bounds__(block_threads)
    delta_rows_kernel(DeltaSizes s, DeltaArrays in, DeltaWorkspace keep, Sink dq, Sink dk, Sink dg) {
  const RowScan<lanes> w(s);
  const bool writes = w.lane == 0 && w.i < s.keys;
  float starts[chunk / piece][held], x[held], flow[held], u[held];
  w.get(x, keep.states + w.kept, s);
  w.get(flow, keep.flows + w.kept, s);
  const auto step = [&](int t) {  // x from before token t to behind it; `u` returns what the decay multiplied
    const std::size_t row = w.row(s, t);
    const RowToken token(s, in, row, w.i);
    w.columns(u, keep.errors + row * s.width, s);
    unrolled<held>([&](int j) {
      const float faded = token.decay * x[j];
      x[j] = faded + token.k * token.beta * u[j];
      u[j] = faded;
    });
  };
  unrolled<chunk / piece>([&](int part) {
    unrolled<held>([&](int j) { starts[part][j] = x[j]; });
    for (int t = w.begin + part * piece; t < min(w.end, w.begin + (part + 1) * piece); ++t) step(t);
  });
#pragma unroll
  for (int part = chunk / piece - 1; part >= 0; --part) {
    const int begin = w.begin + part * piece;
    if (begin >= w.end) continue;
    float faded[piece][held];
    unrolled<held>([&](int j) { x[j] = starts[part][j]; });
#pragma unroll
    for (int n = 0; n < piece; ++n) {
      if (begin + n >= w.end) continue;
      step(begin + n);
      unrolled<held>([&](int j) { faded[n][j] = u[j]; });
    }
#pragma unroll
    for (int n = piece - 1; n >= 0; --n) {
      if (begin + n >= w.end) continue;
      const std::size_t row = w.row(s, begin + n);
      const RowToken token(s, in, row, w.i);
      float dy[held], du[held];
      w.columns(u, keep.errors + row * s.width, s);
      w.columns(dy, in.dy + row * s.width, s);
      w.columns(du, keep.du + row * s.width, s);
      float of_query = 0, of_key = 0, of_decay = 0;
      unrolled<held>([&](int j) {
        const float input = token.beta * u[j], correction = s.corrects ? token.beta * du[j] : 0.0f;
        flow[j] += token.q * s.scale * dy[j];
        of_query += (faded[n][j] + token.k * input) * dy[j];
        of_key += flow[j] * input - faded[n][j] * correction;
        flow[j] -= token.k * correction;
        of_decay += flow[j] * faded[n][j];
        flow[j] *= token.decay;
      });
      of_query = s.scale * sum_of_lanes<lanes>(of_query);
      of_key = sum_of_lanes<lanes>(of_key);
      of_decay = sum_of_lanes<lanes>(of_decay);
      if (!writes) continue;
      if (dq.wanted()) dq.put(row, unsigned(w.i), of_query);
      if (dk.wanted()) dk.put(row, unsigned(w.i), of_key);
      if (dg.wanted()) dg.put(row, unsigned(w.i), of_decay);
    }
  }
}

DeltaSizes sizes_of(const DeltaInputs& in) {
  const Shape& q = in.q.shape;
  if (q[3] > 32 * held || in.v.shape[3] > 32 * held) {
    throw Error(ExitCode::bad_input, "the delta rule has keys of width " + std::to_string(q[3]) +
                                         " and values of width " + std::to_string(in.v.shape[3]) +
                                         ", but the GPU kernel holds at most 256; use more heads, or the CPU");
  }
  return {int(q[0]),          int(q[1]),
          int(q[2]),          int(q[3]),
          int(in.v.shape[3]), int((q[1] + chunk - 1) / chunk),
          float(in.scale),    in.beta.defined(),
          in.g.defined(),     in.g.defined() && in.g.shape.rank() == 4};
}

DeltaArrays arrays_of(const DeltaInputs& in, const Tensor& dy) {
  return {in.q.as<float>(), in.k.as<float>(), in.v.as<float>(), in.beta.as<float>(), in.g.as<float>(), dy.as<float>()};
}

std::int64_t kept_elements(const DeltaSizes& s) {
  return std::int64_t{s.batch} * s.heads * s.chunks * s.keys * s.width;
}
std::int64_t token_elements(const DeltaSizes& s) { return std::int64_t{s.batch} * s.length * s.heads; }

DeltaWorkspace workspace_of(const DeltaSizes& s, const Tensor& memory) {
  DeltaWorkspace w;
  w.errors = memory.as<float>();
  w.du = w.errors + token_elements(s) * s.width;
  w.states = w.du + token_elements(s) * s.width;
  w.flows = w.states + kept_elements(s);
  w.dg = w.flows + kept_elements(s);
  return w;
}

/// For each token of each head dbeta = dS^T k . e, and dg when one serves all channels.
void sum_scalars(const CudaBackend& backend, const DeltaSizes& s, const DeltaWorkspace& keep, const Sink& dbeta,
                 const Sink& dg) {
  if (!dbeta.wanted() && !dg.wanted()) return;
  map_rows(backend, "delta_scan_backward", token_elements(s), [=] __device__(unsigned i, unsigned lane) {
    const std::size_t row = i;
    float beta = 0, decay = 0;
    for (int p = int(lane); dbeta.wanted() && p < s.width; p += 32)
      beta += keep.du[row * s.width + p] * keep.errors[row * s.width + p];
    for (int k = int(lane); dg.wanted() && k < s.keys; k += 32) decay += keep.dg[row * s.keys + k];
    beta = warp_sum(beta);
    decay = warp_sum(decay);
    if (lane != 0) return;
    if (dbeta.wanted()) dbeta.put(i, beta);
    if (dg.wanted()) dg.put(i, decay);
  });
}

/// Calls body(lanes) with the fewest threads that together hold `count` numbers.
template <class Body>
void with_lanes(int count, const Body& body) {
  with_capacity<1, 2, 4, 8, 16, 32>((count + held - 1) / held, body);
}

}  // namespace

void CudaBackend::delta_scan(const DeltaInputs& in, const Tensor& y, const Tensor& state, bool resume) {
  if (scan::goes_by_chunks(in)) {
    auto* memory =
        in.kept.defined() ? in.kept.as<float>() : static_cast<float*>(operand_memory(std::size_t(plan(in).operands)));
    scan::chunked_rule(in).run(stream(), in, precision_ == Precision::fp32, memory, y, state, resume);
    launched("delta_scan");
    return;
  }
  const DeltaSizes s = sizes_of(in);
  with_lanes(s.keys, [&](auto lanes) {
    const unsigned blocks = unsigned(s.batch * s.heads) * blocks_for(s.width, block_threads / lanes());
    delta_kernel<lanes()>
        <<<blocks, block_threads, 0, stream()>>>(s, arrays_of(in, {}), y.as<float>(), state.as<float>(), resume, {});
  });
  launched("delta_scan");
}

Plan CudaBackend::plan(const DeltaInputs& in) const {
  if (scan::goes_by_chunks(in)) {
    const scan::ChunkedRule& rule = scan::chunked_rule(in);
    const std::int64_t kept = rule.memory(in);
    const bool is_narrow = precision_ == Precision::bf16 && scan::stores_narrow(in);
    return {.stored = is_narrow ? Storage::narrow : Storage::wide,
            .kept = kept,
            .workspace = rule.workspace(in),
            .operands = in.kept.defined() ? 0 : kept * std::int64_t(sizeof(float))};
  }
  const DeltaSizes s = sizes_of(in);
  const std::int64_t of_decay = s.fades && !s.by_channel ? s.keys : 0;
  return {.workspace = token_elements(s) * (2 * s.width + of_decay) + 2 * kept_elements(s)};
}

void CudaBackend::delta_scan_backward(const DeltaInputs& in, const Tensor& dy, const Tensor& workspace,
                                      const DeltaGrads& out) {
  if (scan::goes_by_chunks(in)) {
    scan::chunked_rule(in).differentiate(stream(), in, precision_ == Precision::fp32, dy, workspace.as<float>(), out);
    launched("delta_scan_backward");
    return;
  }
  const DeltaSizes s = sizes_of(in);
  const DeltaArrays arrays = arrays_of(in, dy);
  const DeltaWorkspace keep = workspace_of(s, workspace);
  with_lanes(s.keys, [&](auto lanes) {
    const unsigned blocks = unsigned(s.batch * s.heads) * blocks_for(s.width, block_threads / lanes());
    delta_kernel<lanes()><<<blocks, block_threads, 0, stream()>>>(s, arrays, nullptr, nullptr, false, keep);
    delta_backward_kernel<lanes()><<<blocks, block_threads, 0, stream()>>>(s, arrays, keep, sink_of(out.v));
  });
  // dg of single channels goes to its destination if wanted, or to the workspace to be summed.
  Sink dg = s.by_channel ? sink_of(out.g) : Sink{};
  if (!s.by_channel && out.g.wanted()) dg = {{keep.dg, unsigned(s.keys), std::size_t(s.keys), true}, false};
  with_lanes(s.width, [&](auto lanes) {
    const unsigned blocks = unsigned(s.batch * s.heads * s.chunks) * blocks_for(s.keys, block_threads / lanes());
    delta_rows_kernel<lanes()>
        <<<blocks, block_threads, 0, stream()>>>(s, arrays, keep, sink_of(out.q), sink_of(out.k), dg);
  });
  launched("delta_scan_backward");
  sum_scalars(*this, s, keep, sink_of(out.beta), s.by_channel ? Sink{} : sink_of(out.g));
}

}  // namespace afterglow
