// The delta rule by chunks, for one decay a head or none (gated linear attention: gla_chunks.cu). With the errors e = v
// - S'^T k known it is the scan of ssd_chunks.cuh: x = e, dt = beta, B = k, C = q. Inside a chunk the errors solve a
// triangular system,
//
//     (I + L) e = v - e_i S k,     L_ij = exp(l_i - l_j) beta_j (k_i . k_j) for j < i,
//
// whose inverses X are found for all chunks side by side; a walk then takes three products a chunk. Of the gradient,
// what the errors receive, h = dx - beta L'^T h, solves the transposed system by a walk from behind, with which -h is
// the gradient of a second scan, of the keys as queries, in which no token answers itself.
#include "gpu/cuda_backend.h"
#include "gpu/scan/delta_chunks.cuh"
#include "gpu/scan/gla_chunks.cuh"
#include "gpu/scan/ssd_chunks.cuh"

namespace afterglow::scan {

using namespace device;
using device::tiles::commit;
using device::tiles::wait;

namespace {

constexpr int column_tile = 16;      // columns of the state that a block walks with
constexpr int shortest_delta = 128;  // tokens

// A warp a chunk of a head, two tokens a lane.
__global__ void __launch_bounds__(threads)
    delta_pace_kernel(ScanSizes s, const float* beta, const float* g, ChunkArrays to) {
  await_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::size_t rest = (static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x) / 32;
  const int h = static_cast<int>(rest % s.heads);
  rest /= s.heads;
  const int c = static_cast<int>(rest % s.chunks), b = static_cast<int>(rest / s.chunks);
  if (b >= s.batch) return;
  Pace own[2];
  double log_decay[2];
  for (int i = 0; i < 2; ++i) {
    const int t = c * chunk + 2 * lane + i;
    const std::size_t at = (static_cast<std::size_t>(b) * s.length + t) * s.heads + h;
    own[i].dt = own[i].whole = t < s.length ? beta[at] : 0.0f;
    log_decay[i] = t < s.length && g != nullptr ? g[at] : 0.0f;
  }
  put_paces(own, log_decay, to, chunk_index(s, b, h, c) * chunk + 2 * lane);
}

// The inverse X of one chunk of a head: a product, then a thread a column.
template <int states, bool exact>
__global__ void __launch_bounds__(block_threads)
    inverse_kernel(ScanSizes s, ScanArrays in, const Pace* paces, float* inverses) {
  await_previous();
  __shared__ __align__(16) float keys[chunk * states];
  __shared__ __align__(16) float lower[chunk][chunk];
  __shared__ Pace own_paces[chunk];
  const int c = static_cast<int>(blockIdx.x) % s.chunks, pair = static_cast<int>(blockIdx.x) / s.chunks;
  const int b = pair / s.heads, h = pair % s.heads, count = min(chunk, s.length - c * chunk);
  const std::size_t row = static_cast<std::size_t>(b) * s.length + static_cast<std::size_t>(c) * chunk;
  const Matrix<states> K{keys};
  fetch<chunk>(K, {&in.B.at(row, static_cast<unsigned>(h * s.states)), in.B.stride, count, s.states});
  if (threadIdx.x < chunk)
    __pipeline_memcpy_async(&own_paces[threadIdx.x], &paces[std::size_t{blockIdx.x} * chunk + threadIdx.x], 16);
  commit();
  wait<0>();
  __syncthreads();
  const Place p;
#pragma unroll 1
  for (int half = 0; half < chunk / 32; ++half) {
    const auto gram =
        multiply<exact, 4>(0, states / 8, LeftRows<states>(K, 16 * p.warp), RightRows<states, 4>(K, 32 * half));
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int t = p.row() + i / 2 * 8, j = 32 * half + 8 * n + p.column() + i % 2;
        lower[t][j] = j < t ? decay_between(own_paces[t], own_paces[j]) * own_paces[j].dt * gram.of(n, i) : 0.0f;
      }
  }
  __syncthreads();
  if (threadIdx.x >= chunk) return;
  const int column = static_cast<int>(threadIdx.x);
  float x[chunk];
#pragma unroll
  for (int i = 0; i < chunk; ++i) {
    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < i; ++j) sums[j % 4] = fmaf(lower[i][j], x[j], sums[j % 4]);
    x[i] = (i == column ? 1.0f : 0.0f) - ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    inverses[(std::size_t{blockIdx.x} * chunk + i) * chunk + column] = x[i];
  }
}

/// What a walk that solves reads and leaves.
struct Solving {
  const float* given;     // v, or what the errors receive from the answers, [B,T,H,P]
  float scale;            // of `given`
  const float* inverses;  // [B,H,chunks,64,64]
  float* kept;            // states before chunks or flows into them
  float* solved;          // [B,T,H,P]
  Sink dv;
  float* state;  // [B,H,K,P]
  bool resume;
};

// The errors, chunk after chunk, or from behind what they receive, of 16 columns of a head's state.
template <int states, bool exact, bool back>
__global__ void __launch_bounds__(block_threads, 2)
    solve_kernel(ScanSizes s, ScanArrays in, ChunkArrays paced, int tiles, int width, Solving to) {
  await_previous();
  constexpr int own_states = states < 32 ? 8 : states / 4, state_tiles = own_states / 8;
  struct Stage {
    float K[chunk * states], X[chunk * chunk], given[chunk * column_tile];
    Edges edges[chunk];
  };
  struct Memory {
    Stage stages[2];
    float S[column_tile * states], rest[chunk * column_tile], weighed[chunk * column_tile];
  };
  extern __shared__ float4 memory[];
  Memory& m = *reinterpret_cast<Memory*>(memory);
  const int pair = static_cast<int>(blockIdx.x) / tiles, first = static_cast<int>(blockIdx.x) % tiles * column_tile;
  const int b = pair / s.heads, h = pair % s.heads;
  const std::size_t begin = static_cast<std::size_t>(b) * s.length,
                    stride = static_cast<std::size_t>(s.heads) * s.width;
  const auto place = [&](int i) { return back ? s.chunks - 1 - i : i; };
  const auto start = [&](int i) {
    if (i < s.chunks) {
      Stage& stage = m.stages[i % 2];
      const int c = place(i), count = min(chunk, s.length - c * chunk);
      const std::size_t row = begin + static_cast<std::size_t>(c) * chunk, index = chunk_index(s, b, h, c);
      fetch<chunk>(Matrix<states>{stage.K},
                   {&in.B.at(row, static_cast<unsigned>(h * s.states)), in.B.stride, count, s.states});
      fetch<chunk>(Matrix<chunk>{stage.X}, {to.inverses + index * chunk * chunk, std::size_t{chunk}, chunk, chunk});
      fetch<chunk>(Matrix<column_tile>{stage.given},
                   {to.given + row * stride + h * s.width + first, stride, count, s.width - first});
      if (threadIdx.x < chunk)
        __pipeline_memcpy_async(&stage.edges[threadIdx.x], &paced.edges[index * chunk + threadIdx.x], 8);
    }
    commit();
  };
  start(0);
  const Place p;
  const int number = own_states * p.warp, top = 16 * p.warp;
  const bool holds = number < states;
  const Matrix<states> S{m.S};
  const Matrix<column_tile> rest{m.rest}, weighed{m.weighed};
  float* const state = to.state + (static_cast<std::size_t>(b) * s.heads + h) * s.states * s.width;
  float now[state_tiles][4] = {};
  const auto each = [&](const auto& visit) {
#pragma unroll
    for (int n = 0; n < state_tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = first + p.quad + i / 2 * 8, key = number + 8 * n + p.column() + i % 2;
        visit(n, i, column, key, column < s.width && key < s.states);
      }
  };
  if (!back && to.resume)
    each([&](int n, int i, int column, int key, bool valid) {
      if (valid) now[n][i] = state[static_cast<std::size_t>(key) * s.width + column];
    });
  for (int i = 0; i < s.chunks; ++i) {
    const int c = place(i), count = min(chunk, s.length - c * chunk);
    const std::size_t row = begin + static_cast<std::size_t>(c) * chunk;
    if (holds) {
      float* kept = to.kept + (chunk_index(s, b, h, c) * width + first) * states + number + p.column();
#pragma unroll
      for (int n = 0; n < state_tiles; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float2 two = make_float2(now[n][2 * r], now[n][2 * r + 1]);
          S.two(p.quad + 8 * r, number + 8 * n + p.column()) = two;
          *reinterpret_cast<float2*>(kept + (p.quad + 8 * r) * states + 8 * n) = two;
        }
    }
    wait<0>();
    __syncthreads();
    start(i + 1);
    Stage& stage = m.stages[i % 2];
    const Matrix<states> K{stage.K};
    const Matrix<chunk> X{stage.X};
    const Edges edges[2] = {stage.edges[p.row()], stage.edges[p.row() + 8]};
    {
      const Matrix<column_tile> given{stage.given};
      const auto known = multiply<exact, 2>(0, states / 8, LeftRows<states>(K, top), RightRows<states, 2>(S, 0));
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float2 own = given.two(p.row() + 8 * r, 8 * n + p.column());
          const float weight = back ? edges[r].leave : edges[r].start;
          rest.two(p.row() + 8 * r, 8 * n + p.column()) = make_float2(
              to.scale * own.x - weight * known.of(n, 2 * r), to.scale * own.y - weight * known.of(n, 2 * r + 1));
        }
    }
    __syncthreads();
    {
      const RightColumns<column_tile, 2, false> right(rest, 0);
      Product<exact, 2> solved;
      if constexpr (back) {
        solved = multiply<exact, 2>(2 * p.warp, chunk / 8, LeftColumns<chunk>(X, top), right);
      } else {
        solved = multiply<exact, 2>(0, 2 * p.warp + 2, LeftRows<chunk>(X, top), right);
      }
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float weight = back ? edges[r].start : edges[r].leave;
          weighed.two(p.row() + 8 * r, 8 * n + p.column()) =
              make_float2(weight * solved.of(n, 2 * r), weight * solved.of(n, 2 * r + 1));
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int t = p.row() + 8 * r, column = first + 8 * n + p.column() + e;
            if (t >= count || column >= s.width) continue;
            const std::size_t at = (row + t) * stride + h * s.width + column;
            to.solved[at] = solved.of(n, 2 * r + e);
            if (back && to.dv.wanted()) to.dv.put(static_cast<unsigned>(at), solved.of(n, 2 * r + e));
          }
        }
    }
    __syncthreads();
    if (holds) {
      const auto added = multiply<exact, state_tiles>(0, chunk / 8, LeftColumns<column_tile>(weighed, 0),
                                                      RightColumns<states, state_tiles, false>(K, number));
      const float fade = stage.edges[chunk - 1].start;
      each([&](int n, int k, int, int, bool) { now[n][k] = fmaf(fade, now[n][k], added.of(n, k)); });
    }
  }
  if (back || to.state == nullptr) return;
  each([&](int n, int i, int column, int key, bool valid) {
    if (valid && holds) state[static_cast<std::size_t>(key) * s.width + column] = now[n][i];
  });
}

// A thread `width` numbers of q and k; the first of a token and head also its steps.
template <unsigned width>
__global__ void __launch_bounds__(threads) delta_sum_kernel(ScanSizes s, float scale, ScanParts answers,
                                                            ScanParts errors, Sink dq, Sink dk, Sink dbeta, Sink dg) {
  await_previous();
  const unsigned states = static_cast<unsigned>(s.states), i = (blockIdx.x * threads + threadIdx.x) * width;
  const unsigned row = i / states, n = i % states;  // a row is a token's head
  if (row >= static_cast<unsigned>(s.batch * s.length * s.heads)) return;
  using P = Piece<width>;
  const float* a = answers.shared + std::size_t{row} * 2 * states + n;
  P to_q = P::of(a + states, true), to_k = P::of(a, true);
  const P of_errors = P::of(errors.shared + std::size_t{row} * 2 * states + n, true);
#pragma unroll
  for (unsigned e = 0; e < width; ++e) {
    to_q.v[e] *= scale;
    to_k.v[e] = scale * to_k.v[e] - of_errors.v[e];
  }
  if (dq.wanted()) to_q.put(dq, row, n);
  if (dk.wanted()) to_k.put(dk, row, n);
  if (n > 0) return;
  a = answers.steps + std::size_t{row} * answers.kinds;
  const float* e = errors.steps + std::size_t{row} * errors.kinds;
  if (dbeta.wanted()) dbeta.put(row, scale * a[0] - e[2]);
  if (dg.wanted()) dg.put(row, scale * a[1] - e[1]);
}

ScanSizes sizes_of(const DeltaInputs& in) {
  ScanSizes s{};
  s.batch = static_cast<int>(in.q.shape[0]);
  s.length = static_cast<int>(in.q.shape[1]);
  s.heads = s.groups = static_cast<int>(in.q.shape[2]);
  s.states = static_cast<int>(in.q.shape[3]);
  s.width = static_cast<int>(in.v.shape[3]);
  s.chunks = (s.length + chunk - 1) / chunk;
  s.group = 1;
  return s;
}

Rows<float> heads_of(const Tensor& tensor) {
  const auto columns = static_cast<unsigned>(tensor.shape[2] * tensor.shape[3]);
  return {tensor.as<float>(), columns, columns, true};
}

std::int64_t inverse_numbers(const ScanSizes& s) { return std::int64_t{s.batch} * s.heads * s.chunks * chunk * chunk; }
/// Rounded up, so that what lies behind is aligned.
std::int64_t value_numbers(const ScanSizes& s) {
  return (std::int64_t{s.batch} * s.length * s.heads * s.width + 3) / 4 * 4;
}

std::int64_t flow_numbers(const ScanSizes& s) { return chunk_numbers(s, true) - chunk_numbers(s, false); }

/// A walk that solves, forward or back.
template <bool back>
void solve(cudaStream_t stream, const ScanSizes& s, const ScanArrays& in, bool exact, const ChunkArrays& paced,
           const Solving& to) {
  with_shape(s, exact, [&](auto width, auto states, auto is_exact) {
    const auto kernel = solve_kernel<states(), is_exact(), back>;
    constexpr int bytes =
        4 * (2 * (chunk * (states() + chunk + column_tile + 2)) + column_tile * (states() + 2 * chunk));
    allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "delta_scan");
    const int tiles = width() / column_tile;
    const auto blocks = static_cast<unsigned>(s.batch * s.heads * tiles);
    launch(kernel, blocks, block_threads, bytes, stream, s, in, paced, tiles, width(), to);
  });
}

/// The errors and what they are found from, in memory that has room for `delta_chunk_memory`: the scan that they are
/// the inputs of.
struct Errors {
  ChunkArrays kept;
  float* inverses;
  ScanArrays arrays;

  Errors(const ScanSizes& s, const DeltaInputs& in, float* memory);
  /// With the last state where `state` is not null, from which it starts when it resumes.
  void find(cudaStream_t stream, const ScanSizes& s, const DeltaInputs& in, bool exact, float* state,
            bool resume) const;
};

/// Paces and inverses.
void prepare(cudaStream_t stream, const ScanSizes& s, const DeltaInputs& in, const ScanArrays& arrays, bool exact,
             const ChunkArrays& to, float* inverses) {
  const std::int64_t chunks = std::int64_t{s.batch} * s.heads * s.chunks;
  launch(delta_pace_kernel, blocks_for(chunks, threads / 32), threads, 0, stream, s, in.beta.as<float>(),
         in.g.defined() ? in.g.as<float>() : nullptr, to);
  with_shape(s, exact, [&](auto, auto states, auto is_exact) {
    launch(inverse_kernel<states(), is_exact()>, static_cast<unsigned>(chunks), block_threads, 0, stream, s, arrays,
           to.paces, inverses);
  });
}

Errors::Errors(const ScanSizes& s, const DeltaInputs& in, float* memory)
    : kept(chunk_arrays(s, memory, false)), inverses(memory + chunk_numbers(s, false)), arrays{} {
  const auto columns = static_cast<unsigned>(s.heads * s.width);
  arrays.B = heads_of(in.k);
  arrays.C = heads_of(in.q);
  arrays.x = {inverses + inverse_numbers(s), columns, columns, true};
}

void Errors::find(cudaStream_t stream, const ScanSizes& s, const DeltaInputs& in, bool exact, float* state,
                  bool resume) const {
  prepare(stream, s, in, arrays, exact, kept, inverses);
  solve<false>(stream, s, arrays, exact, kept,
               {in.v.as<float>(), 1.0f, inverses, kept.states, arrays.x.data, {}, state, resume});
}

}  // namespace

bool goes_by_chunks(const DeltaInputs& in) {
  if (is_chunked_gla(in)) return true;
  const bool of_head = in.beta.defined() && !(in.g.defined() && in.g.shape.rank() == 4);
  return of_head && in.q.shape[1] >= shortest_delta && in.q.shape[3] <= 64 && in.v.shape[3] <= 64;
}

std::int64_t delta_chunk_memory(const DeltaInputs& in) {
  if (is_chunked_gla(in)) return gla_memory(in);
  const ScanSizes s = sizes_of(in);
  return chunk_numbers(s, false) + inverse_numbers(s) + value_numbers(s);
}

std::int64_t delta_chunk_workspace(const DeltaInputs& in) {
  if (is_chunked_gla(in)) return gla_workspace(in);
  const ScanSizes s = sizes_of(in);
  return (in.kept.defined() ? 0 : delta_chunk_memory(in)) + flow_numbers(s) + 2 * value_numbers(s) +
         2 * part_numbers(s, step_kinds<true>);
}

void delta_by_chunks(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
                     const Tensor& state, bool resume) {
  if (is_chunked_gla(in)) return gla_by_chunks(stream, in, exact, memory, y, state, resume);
  const ScanSizes s = sizes_of(in);
  const Errors found(s, in, memory);
  const auto& [kept, inverses, arrays] = found;
  found.find(stream, s, in, exact, state.as<float>(), resume);
  answer_chunks(stream, s, arrays, exact, kept, static_cast<float>(in.scale), y.as<float>());
}

void delta_by_chunks_backward(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy,
                              float* workspace, const DeltaGrads& out) {
  if (is_chunked_gla(in)) return gla_by_chunks_backward(stream, in, exact, dy, workspace, out);
  const ScanSizes s = sizes_of(in);
  const auto scale = static_cast<float>(in.scale);
  Errors found(s, in, in.kept.defined() ? in.kept.as<float>() : workspace);
  if (!in.kept.defined()) {
    found.find(stream, s, in, exact, nullptr, false);
    workspace += delta_chunk_memory(in);
  }
  auto& [kept, inverses, arrays] = found;
  kept.flows = workspace;
  float* received = workspace + flow_numbers(s);
  float* solved = received + value_numbers(s);
  const ScanParts of_answers = chunk_parts(s, solved + value_numbers(s), step_kinds<true>);
  const ScanParts of_errors =
      chunk_parts(s, solved + value_numbers(s) + part_numbers(s, step_kinds<true>), step_kinds<true>);
  const auto columns = static_cast<unsigned>(s.heads * s.width);
  arrays.dy = dy.as<float>();
  walk_chunks(stream, s, arrays, exact, kept, Ways::back, nullptr, false);
  differentiate_chunks(stream, s, arrays, exact, kept, false, of_answers,
                       Sink{{received, columns, columns, true}, false});
  solve<true>(stream, s, arrays, exact, kept,
              {received, scale, inverses, kept.flows, solved, sink_of(out.v), nullptr, false});
  arrays.C = arrays.B;
  arrays.dy = solved;
  differentiate_chunks(stream, s, arrays, exact, kept, true, of_errors, Sink{});
  const std::int64_t numbers = std::int64_t{s.batch} * s.length * s.heads * s.states;
  const Sink to_q = sink_of(out.q), to_k = sink_of(out.k);
  const auto sum = [&](auto* kernel, std::int64_t pieces) {
    launch(kernel, blocks_for(pieces, threads), threads, 0, stream, s, scale, of_answers, of_errors, to_q, to_k,
           sink_of(out.beta), sink_of(out.g));
  };
  if (s.states % 4 == 0 && in_pieces<4>(to_q.rows) && in_pieces<4>(to_k.rows)) {
    sum(delta_sum_kernel<4>, numbers / 4);
  } else {
    sum(delta_sum_kernel<1>, numbers);
  }
}

}  // namespace afterglow::scan
