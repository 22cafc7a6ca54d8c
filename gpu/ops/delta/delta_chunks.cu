// The delta rule, S_t = a_t S_{t-1} + beta_t k_t e_t^T with the errors e_t = v_t - (a_t S_{t-1})^T k_t and y_t = S_t^T
// q_t, by chunks of 64 tokens, for at most one decay a head (one a channel: kda_chunks.cu). With known errors it is the
// scan of ssd_chunks.cuh with x = e, dt = beta, B = k, C = q. The errors of a chunk with the state S before it solve
//     (I + L) e = v - exp(l_i) S^T k,     L_ij = exp(l_i - l_j) beta_j (k_i . k_j) for j < i.
// inverse_kernel inverts I + L of all chunks in parallel: a block a chunk of a head. solve_kernel passes the state from
// chunk to chunk, three products each: a block 16 columns of a head's state, with the keys of all passes. Backward it
// passes the state's gradient from the last chunk to the first and solves the transposed system for h, the gradient of
// e; -h is the gradient of a second scan, with keys as queries, in which no token sees itself. delta_sum_kernel adds
// both scans' gradients. T is the stored type of q, k, v, e, inverses and states; sums are float32.
#include "gpu/ops/delta/chunk_inverse.cuh"
#include "gpu/ops/delta/delta_chunks.cuh"
#include "gpu/ops/ssd/ssd_chunks.cuh"

namespace afterglow::scan {

using namespace device;

namespace {

constexpr int column_tile = 16;        // columns of the state of a block
constexpr int min_delta_tokens = 128;  // tokens
constexpr int max_values = 256;        // as in the recurrence
constexpr int max_passes = max_states / pass_states;

/// Of each token and head [B,T,H]; `log_decay` may be null.
struct DeltaSteps {
  const float *beta, *log_decay;
};
__device__ void load_steps(const ScanSizes& s, const DeltaSteps& in, int b, int h, int c, Pace (&own)[2],
                           double (&log_decay)[2]) {
  for (int i = 0; i < 2; ++i) {
    const int t = c * chunk + 2 * (int(threadIdx.x) % 32) + i;
    const std::size_t at = (std::size_t(b) * s.length + t) * s.heads + h;
    own[i].dt = own[i].whole = t < s.length ? in.beta[at] : 0.0f;
    log_decay[i] = t < s.length && in.log_decay != nullptr ? in.log_decay[at] : 0.0f;
  }
}

// X = (I + L)^-1 of one chunk of a head: a product of the keys of each pass gives L, then each thread solves for a
// column.
template <int states, bool exact, class T>
__global__ void __launch_bounds__(block_threads)
    inverse_kernel(ScanSizes s, ScanArraysOf<T> in, const Pace* paces, T* inverses) {
  wait_for_previous_kernel();
  __shared__ __align__(16) T keys[chunk * states];
  __shared__ __align__(16) float lower[chunk][chunk];
  __shared__ Pace own_paces[chunk];
  const int c = int(blockIdx.x) % s.chunks, pair = int(blockIdx.x) / s.chunks;
  const int b = pair / s.heads, h = pair % s.heads, count = min(chunk, s.length - c * chunk);
  const std::size_t row = std::size_t(b) * s.length + std::size_t(c) * chunk;
  const SharedMatrix<states, T> K{keys};
  if (threadIdx.x < chunk)
    __pipeline_memcpy_async(&own_paces[threadIdx.x], &paces[std::size_t{blockIdx.x} * chunk + threadIdx.x], 16);
  const ThreadPosition p;
#pragma unroll 1
  for (int pass = 0; pass < s.passes; ++pass) {
    const unsigned column = unsigned(h * s.group_states + pass * s.states);
    fetch<chunk>(K, {&in.B.at(row, column), in.B.stride, count, s.states});
    commit();
    wait<0>();
    __syncthreads();
#pragma unroll 1
    for (int half = 0; half < chunk / 32; ++half) {
      const auto gram =
          multiply<exact, 4>(0, states / 8, LeftRows<states, T>(K, 16 * p.warp), RightRows<states, 4, T>(K, 32 * half));
      unrolled<4, 4>([&](int n, int i) {
        const int t = p.row() + i / 2 * 8, j = 32 * half + 8 * n + p.column() + i % 2;
        const float weight = j < t ? decay_between(own_paces[t], own_paces[j]) * own_paces[j].dt : 0.0f;
        const float before = pass > 0 ? lower[t][j] : 0.0f;
        lower[t][j] = j < t ? fmaf(weight, gram.of(n, i), before) : 0.0f;
      });
    }
    __syncthreads();
  }
  if (threadIdx.x >= chunk) return;
  put_inverse_column(lower, int(threadIdx.x), inverses + std::size_t{blockIdx.x} * chunk * chunk);
}

/// Inputs and outputs of the state passing that solves for errors.
template <class T>
struct Solving {
  const T* given;     // v, or the errors' gradients from the outputs, [B,T,H,P]
  float scale;        // of `given`
  const T* inverses;  // [B,H,chunks,64,64]
  T* kept;            // states before chunks or flows into them, of all passes
  T* solved;          // [B,T,H,P]
  SinkOf<T> dv;
  float* state;  // [B,H,K,P]
  bool resume;
};

template <int states, int passes, class T>
struct SolveMemory {
  /// Buffered inverses, the current one included. With many keys in float32 two would leave a multiprocessor room for
  /// one block only; with one, the next is copied as soon as the current one is no longer read.
  static constexpr int inverses = passes > 1 && sizeof(T) == 4 ? 1 : 2;
  struct Stage {
    T K[passes][chunk * states], given[chunk * column_tile];
    Edges edges[chunk];
  };
  Stage stages[2];
  T X[inverses][chunk * chunk];
  T S[passes][column_tile * states], rest[chunk * column_tile], weighed[chunk * column_tile];
};

// The errors of all chunks, one chunk after the other, for 16 columns of a head's state; when backward their gradients.
template <int states, int passes, bool exact, bool backward, class T>
__global__ void __launch_bounds__(block_threads, 2)
    solve_kernel(ScanSizes s, ScanArraysOf<T> in, ChunkArraysOf<T> paced, int tiles, int width, Solving<T> to) {
  wait_for_previous_kernel();
  constexpr int all_states = passes * states, own_states = all_states < 32 ? 8 : all_states / 4,
                state_tiles = own_states / 8;
  using Memory = SolveMemory<states, passes, T>;
  extern __shared__ float4 memory[];
  auto& m = *reinterpret_cast<Memory*>(memory);
  const int pair = int(blockIdx.x) / tiles, first = int(blockIdx.x) % tiles * column_tile;
  const int b = pair / s.heads, h = pair % s.heads;
  const std::size_t begin = std::size_t(b) * s.length, stride = std::size_t(s.heads) * s.width;
  const auto place = [&](int i) { return backward ? s.chunks - 1 - i : i; };
  const auto fetch_inverse = [&](int i) {
    fetch<chunk>(SharedMatrix<chunk, T>{m.X[i % Memory::inverses]},
                 {to.inverses + chunk_index(s, b, h, place(i)) * chunk * chunk, std::size_t{chunk}, chunk, chunk});
  };
  const auto start = [&](int i) {
    if (i < s.chunks) {
      auto& stage = m.stages[i % 2];
      const int c = place(i), count = min(chunk, s.length - c * chunk);
      const std::size_t row = begin + std::size_t(c) * chunk, index = chunk_index(s, b, h, c);
      unrolled<passes>([&](int pass) {
        const unsigned column = unsigned(h * s.group_states + pass * s.states);
        fetch<chunk>(SharedMatrix<states, T>{stage.K[pass]}, {&in.B.at(row, column), in.B.stride, count, s.states});
      });
      if (Memory::inverses > 1) fetch_inverse(i);
      fetch<chunk>(SharedMatrix<column_tile, T>{stage.given},
                   {to.given + row * stride + h * s.width + first, stride, count, s.width - first});
      if (threadIdx.x < chunk)
        __pipeline_memcpy_async(&stage.edges[threadIdx.x], &paced.edges[index * chunk + threadIdx.x], 8);
    }
    commit();
  };
  // With room for one inverse its copy is a group of its own, which begins when the previous inverse has been read.
  const auto start_inverse = [&](int i) {
    if (Memory::inverses > 1) return;
    if (i < s.chunks) fetch_inverse(i);
    commit();
  };
  start(0);
  start_inverse(0);
  const ThreadPosition p;
  const int top = 16 * p.warp;
  const bool holds = own_states * p.warp < all_states;
  const int own_pass = passes > 1 ? own_states * p.warp / states : 0, number = own_states * p.warp - own_pass * states;
  const SharedMatrix<states, T> own_S{m.S[own_pass]};
  const SharedMatrix<column_tile, T> rest{m.rest}, weighed{m.weighed};
  float* const state = to.state + (std::size_t(b) * s.heads + h) * s.group_states * s.width;
  float now[state_tiles][4] = {};
  const auto each = [&](const auto& visit) {
    unrolled<state_tiles, 4>([&](int n, int i) {
      const int column = first + p.quad + i / 2 * 8, own_key = number + 8 * n + p.column() + i % 2;
      visit(n, i, column, own_pass * s.states + own_key, column < s.width && own_key < s.states);
    });
  };
  if (!backward && to.resume)
    each([&](int n, int i, int column, int key, bool valid) {
      if (valid) now[n][i] = state[std::size_t(key) * s.width + column];
    });
  for (int i = 0; i < s.chunks; ++i) {
    const int c = place(i), count = min(chunk, s.length - c * chunk);
    const std::size_t row = begin + std::size_t(c) * chunk;
    if (holds) {
      T* kept = to.kept + (chunk_index(s, own_pass, b, h, c) * width + first) * states + number + p.column();
      unrolled<state_tiles, 2>([&](int n, int r) {
        const float2 two = make_float2(now[n][2 * r], now[n][2 * r + 1]);
        store_two(&own_S.at(p.quad + 8 * r, number + 8 * n + p.column()), false, two.x, two.y);
        store_two(kept + (p.quad + 8 * r) * states + 8 * n, false, two.x, two.y);
      });
    }
    wait<Memory::inverses == 1>();
    __syncthreads();
    start(i + 1);
    auto& stage = m.stages[i % 2];
    const SharedMatrix<chunk, T> X{m.X[i % Memory::inverses]};
    const Edges edges[2] = {stage.edges[p.row()], stage.edges[p.row() + 8]};
    {
      const SharedMatrix<column_tile, T> given{stage.given};
      ProductTile<exact, 2> parts[passes];
      unrolled<passes>([&](int pass) {
        parts[pass] = multiply<exact, 2>(0, states / 8, LeftRows<states, T>({stage.K[pass]}, top),
                                         RightRows<states, 2, T>({m.S[pass]}, 0));
      });
      const auto known = [&](int n, int k) {
        float sum = parts[0].of(n, k);
#pragma unroll
        for (int pass = 1; pass < passes; ++pass) sum += parts[pass].of(n, k);
        return sum;
      };
      unrolled<2, 2>([&](int n, int r) {
        const float2 own = given.two(p.row() + 8 * r, 8 * n + p.column());
        const float weight = backward ? edges[r].leave : edges[r].start;
        store_two(&rest.at(p.row() + 8 * r, 8 * n + p.column()), false, to.scale * own.x - weight * known(n, 2 * r),
                  to.scale * own.y - weight * known(n, 2 * r + 1));
      });
    }
    if (Memory::inverses == 1) wait<1>();
    __syncthreads();
    {
      const RightColumns<column_tile, 2, false, T> right(rest, 0);
      ProductTile<exact, 2> solved;
      if constexpr (backward) {
        solved = multiply<exact, 2>(2 * p.warp, chunk / 8, LeftColumns<chunk, T>(X, top), right);
      } else {
        solved = multiply<exact, 2>(0, 2 * p.warp + 2, LeftRows<chunk, T>(X, top), right);
      }
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float weight = backward ? edges[r].start : edges[r].leave;
          store_two(&weighed.at(p.row() + 8 * r, 8 * n + p.column()), false, weight * solved.of(n, 2 * r),
                    weight * solved.of(n, 2 * r + 1));
          unrolled<2>([&](int e) {
            const int t = p.row() + 8 * r, column = first + 8 * n + p.column() + e;
            if (t >= count || column >= s.width) return;
            const std::size_t at = (row + t) * stride + h * s.width + column;
            to.solved[at] = static_cast<T>(solved.of(n, 2 * r + e));
            if (backward && to.dv.wanted()) to.dv.put(unsigned(at), solved.of(n, 2 * r + e));
          });
        }
    }
    __syncthreads();
    start_inverse(i + 1);
    if (holds) {
      const SharedMatrix<states, T> own_K{stage.K[own_pass]};
      const auto added = multiply<exact, state_tiles>(0, chunk / 8, LeftColumns<column_tile, T>(weighed, 0),
                                                      RightColumns<states, state_tiles, false, T>(own_K, number));
      const float fade = stage.edges[chunk - 1].start;
      each([&](int n, int k, int, int, bool) { now[n][k] = fmaf(fade, now[n][k], added.of(n, k)); });
    }
  }
  if (backward || to.state == nullptr) return;
  each([&](int n, int i, int column, int key, bool valid) {
    if (valid && holds) state[std::size_t(key) * s.width + column] = now[n][i];
  });
}

/// Partial sums of the gradients: those of the first pass, and the distance from pass to pass. A row is a token and
/// head.
struct PassParts {
  ScanParts first;
  std::int64_t apart;

  ScanParts of(int pass) const {
    ScanParts parts = first;
    parts.shared += pass * apart;
    parts.steps += pass * apart;
    parts.scalars += pass * apart;
    return parts;
  }
  /// The keys' gradient of a row, from the first sharer; the queries' follows, then the other sharers.
  __device__ const float* shared(const ScanSizes& s, unsigned row, int pass) const {
    return first.shared + pass * apart + std::size_t{row} * first.sharers * 2 * s.states;
  }
  /// The steps' gradient of a row, from the first tile.
  __device__ const float* steps(unsigned row, int pass) const {
    return first.steps + pass * apart + std::size_t{row} * first.tiles * step_kinds<true>;
  }
};

// One thread for `width` numbers of q and k; the first one of a token and head also handles its steps.
template <unsigned width, class T>
__global__ void __launch_bounds__(threads)
    delta_sum_kernel(ScanSizes s, float scale, PassParts answers, PassParts errors, SinkOf<T> dq, SinkOf<T> dk,
                     Sink dbeta, Sink dg) {
  wait_for_previous_kernel();
  const unsigned keys = unsigned(s.group_states), i = (blockIdx.x * threads + threadIdx.x) * width;
  const unsigned row = i / keys, n = i % keys;
  if (row >= unsigned(s.batch * s.length * s.heads)) return;
  using P = Piece<width>;
  const auto add = [](P& sum, const float* from) {
    const P part = P::of(from, true);
    unrolled<width>([&](unsigned e) { sum.v[e] += part.v[e]; });
  };
  const int pass = int(n) / s.states, column = int(n) % s.states;
  const float *a = answers.shared(s, row, pass) + column, *e = errors.shared(s, row, pass) + column;
  P to_q{}, to_k{}, of_errors{};
  for (int part = 0; part < answers.first.sharers; ++part) {
    add(to_k, a + part * 2 * s.states);
    add(to_q, a + (part * 2 + 1) * s.states);
    add(of_errors, e + part * 2 * s.states);
  }
  unrolled<width>([&](unsigned k) {
    to_q.v[k] *= scale;
    to_k.v[k] = scale * to_k.v[k] - of_errors.v[k];
  });
  if (dq.wanted()) to_q.put(dq, row, n);
  if (dk.wanted()) to_k.put(dk, row, n);
  if (n > 0) return;
  float to_beta[2] = {}, to_g[2] = {};  // from outputs and from errors
  for (int each = 0; each < s.passes; ++each) {
    a = answers.steps(row, each);
    e = errors.steps(row, each);
    for (int tile = 0; tile < answers.first.tiles; ++tile) {
      to_beta[0] += a[tile * step_kinds<true>];
      to_g[0] += a[tile * step_kinds<true> + 1];
      to_g[1] += e[tile * step_kinds<true> + 1];
      to_beta[1] += e[tile * step_kinds<true> + 2];
    }
  }
  if (dbeta.wanted()) dbeta.put(row, scale * to_beta[0] - to_beta[1]);
  if (dg.wanted()) dg.put(row, scale * to_g[0] - to_g[1]);
}

ScanSizes sizes_of(const DeltaInputs& in) {
  ScanSizes s{};
  s.batch = int(in.q.shape[0]);
  s.length = int(in.q.shape[1]);
  s.heads = s.groups = int(in.q.shape[2]);
  s.group_states = int(in.q.shape[3]);
  s.width = int(in.v.shape[3]);
  s.chunks = (s.length + chunk - 1) / chunk;
  s.group = 1;
  return in_passes(s);
}

/// All heads of a token are one row without padding.
template <class T>
Rows<T> dense_rows(T* data, std::int64_t columns) {
  return {data, unsigned(columns), std::size_t(columns), true};
}
template <class T>
Rows<T> heads_of(const Tensor& tensor) {
  return dense_rows<T>(rows_of<T>(tensor).data, tensor.shape[2] * tensor.shape[3]);
}

/// Number of floats for `numbers`, rounded up to whole vectors, so that the next array is aligned.
template <class T>
std::int64_t floats_for(std::int64_t numbers) {
  return (numbers + max_piece<T> - 1) / max_piece<T> * 4;
}
template <class T>
std::int64_t inverse_numbers(const ScanSizes& s) {
  return floats_for<T>(std::int64_t{s.batch} * s.heads * s.chunks * chunk * chunk);
}
template <class T>
std::int64_t value_numbers(const ScanSizes& s) {
  return floats_for<T>(std::int64_t{s.batch} * s.length * s.heads * s.width);
}
template <class T>
std::int64_t flow_numbers(const ScanSizes& s) {
  return chunk_numbers<T>(s, true) - chunk_numbers<T>(s, false);
}

/// State passing that solves for errors, forward or backward.
template <bool backward, class T>
void solve(const ChunkedScan<T>& scan, const Solving<T>& to) {
  const ScanSizes& s = scan.s;
  const ChunkShape shape = shape_for(s);
  const auto run = [&](auto states, auto passes, auto is_exact) {
    constexpr int bytes = sizeof(SolveMemory<states(), passes(), T>);
    const int width = shape.tiles * shape.width, tiles = width / column_tile;
    const auto blocks = unsigned(s.batch * s.heads * tiles);
    launch("delta_scan", solve_kernel<states(), passes(), is_exact(), backward, T>, blocks, block_threads, bytes,
           scan.stream, s, scan.in, scan.memory, tiles, width, to);
  };
  with_shape<T>(s, scan.exact, [&](auto, auto states, auto is_exact) {
    if constexpr (states() == pass_states) {
      if (s.passes > 1) return run(states, std::integral_constant<int, max_passes>{}, is_exact);
    }
    run(states, std::integral_constant<int, 1>{}, is_exact);
  });
}

/// The errors and the scan that computes them, in memory with room for `delta_memory`.
template <class T>
struct Errors {
  ChunkedScan<T> scan;
  T* inverses;

  Errors(cudaStream_t stream, const ScanSizes& s, const DeltaInputs& in, bool exact, float* memory)
      : scan{stream, s, {}, exact, chunk_arrays<T>(s, memory, false)},
        inverses(reinterpret_cast<T*>(memory + chunk_numbers<T>(s, false))) {
    float* const errors = memory + chunk_numbers<T>(s, false) + inverse_numbers<T>(s);
    scan.in.B = heads_of<T>(in.k);
    scan.in.C = heads_of<T>(in.q);
    scan.in.x = dense_rows(reinterpret_cast<T*>(errors), std::int64_t{s.heads} * s.width);
  }
  /// If `state` is not null it receives the last state, and is the first one with `resume`.
  void find(const DeltaInputs& in, float* state, bool resume) const {
    const auto& [stream, s, arrays, exact, kept] = scan;
    find_paces(stream, s, DeltaSteps{in.beta.as<float>(), in.g.as<float>()}, kept, false);
    with_shape<T>(s, exact, [&](auto, auto states, auto is_exact) {
      launch(inverse_kernel<states(), is_exact(), T>, unsigned(scan.s.batch * scan.s.heads * scan.s.chunks),
             block_threads, 0, scan.stream, scan.s, scan.in, scan.memory.paces, inverses);
    });
    solve<false>(scan, {rows_of<T>(in.v).data, 1.0f, inverses, kept.states, arrays.x.data, {}, state, resume});
  }
};

/// Sizes of `DeltaInputs::kept` and of the workspace.
template <class T>
std::int64_t memory_for(const ScanSizes& s) {
  return chunk_numbers<T>(s, false) + inverse_numbers<T>(s) + value_numbers<T>(s);
}
template <class T>
std::int64_t workspace_for(const ScanSizes& s, bool is_kept) {
  return (is_kept ? 0 : memory_for<T>(s)) + flow_numbers<T>(s) + 2 * value_numbers<T>(s) +
         2 * s.passes * part_numbers(s, step_kinds<true>);
}

template <class T>
void differentiate(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                   const DeltaGrads& out) {
  const ScanSizes s = sizes_of(in);
  const auto scale = float(in.scale);
  Errors<T> found(stream, s, in, exact, in.kept.defined() ? in.kept.as<float>() : workspace);
  if (!in.kept.defined()) {
    found.find(in, nullptr, false);
    workspace += memory_for<T>(s);
  }
  auto& [scan, inverses] = found;
  float* const values = workspace + flow_numbers<T>(s);
  float* const parts = values + 2 * value_numbers<T>(s);
  T *const received = reinterpret_cast<T*>(values), *const solved = reinterpret_cast<T*>(values + value_numbers<T>(s));
  scan.memory.flows = reinterpret_cast<T*>(workspace);
  const std::int64_t apart = part_numbers(s, step_kinds<true>);
  const PassParts of_answers{chunk_parts(s, parts, step_kinds<true>), apart};
  const PassParts of_errors{chunk_parts(s, parts + s.passes * apart, step_kinds<true>), apart};
  const SinkOf<T> receivers{dense_rows(received, std::int64_t{s.heads} * s.width), false};
  scan.in.dy = rows_of<T>(dy).data;
  scan.run_state_pass(Directions::backward, nullptr, false);
  for (int pass = 0; pass < s.passes; ++pass)
    scan.of_pass(pass).differentiate(false, of_answers.of(pass), {}, of_pass(pass, receivers));
  solve<true>(scan, {received, scale, inverses, scan.memory.flows, solved, sink_of<T>(out.v), nullptr, false});
  scan.in.C = scan.in.B;
  scan.in.dy = solved;
  for (int pass = 0; pass < s.passes; ++pass) scan.of_pass(pass).differentiate(true, of_errors.of(pass), {}, {});
  const std::int64_t numbers = std::int64_t{s.batch} * s.length * s.heads * s.group_states;
  const SinkOf<T> to_q = sink_of<T>(out.q), to_k = sink_of<T>(out.k);
  with_either<4u, 1u>(s.states % 4 == 0 && in_pieces<4>(to_q.rows) && in_pieces<4>(to_k.rows), [&](auto width) {
    launch(delta_sum_kernel<width, T>, blocks_for(numbers / width, threads), threads, 0, stream, s, scale, of_answers,
           of_errors, to_q, to_k, sink_of(out.beta), sink_of(out.g));
  });
}

std::int64_t delta_memory(const DeltaInputs& in) {
  const ScanSizes s = sizes_of(in);
  return in.q.dtype == DType::bf16 ? memory_for<Bf16>(s) : memory_for<float>(s);
}

std::int64_t delta_workspace(const DeltaInputs& in) {
  const ScanSizes s = sizes_of(in);
  const bool is_kept = in.kept.defined();
  return in.q.dtype == DType::bf16 ? workspace_for<Bf16>(s, is_kept) : workspace_for<float>(s, is_kept);
}

void delta_by_chunks_backward(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy,
                              float* workspace, const DeltaGrads& out) {
  with_stored_type(in.q, [&]<class T>(T) { differentiate<T>(stream, in, exact, dy, workspace, out); });
}

void delta_by_chunks(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
                     const Tensor& state, bool resume) {
  const ScanSizes s = sizes_of(in);
  with_stored_type(in.q, [&]<class T>(T) {
    const Errors<T> found(stream, s, in, exact, memory);
    found.find(in, state.as<float>(), resume);
    found.scan.answer(float(in.scale), rows_of<T>(y).data);
  });
}

bool has_beta(const DeltaInputs& in) { return in.beta.shape.rank() == 3; }
/// Whether the sizes suit a rule with beta and at most one decay a head. Passes must have equally many keys.
bool fits_chunks(const DeltaInputs& in) {
  const std::int64_t keys = in.q.shape[3];
  return has_beta(in) && in.g.shape.rank() != 4 && in.q.shape[1] >= min_delta_tokens && keys <= max_states &&
         (keys <= pass_states || keys % 2 == 0) && in.v.shape[3] <= max_values;
}

}  // namespace

const ChunkedRule& chunked_rule(const DeltaInputs& in) {
  static constexpr ChunkedRule delta_rule{delta_memory, delta_workspace, delta_by_chunks, delta_by_chunks_backward};
  return !fits_gla(in) ? delta_rule : has_beta(in) ? kda_rule : gla_rule;
}

bool goes_by_chunks(const DeltaInputs& in) { return has_beta(in) ? fits_chunks(in) || fits_kda(in) : fits_gla(in); }

bool stores_narrow(const DeltaInputs& in) {
  const std::int64_t keys = fits_chunks(in) ? sizes_of(in).states : in.q.shape[3];  // of a row that is read at once
  return goes_by_chunks(in) && keys % 8 == 0 && in.v.shape[3] % 8 == 0;
}

}  // namespace afterglow::scan
