// Kimi delta attention by chunks of 64 tokens: the delta rule with a decay for every channel of the keys. Given the
// errors e = v - S'^T k it is gated linear attention (gla_chunks.cu) of the values e, with keys times beta. With R_t =
// k_t 2^l_t, the keys as queries, the errors of a chunk solve
//     (I + L) e = v - R . enter S,   L_tj for j < t as A_tj with R instead of Q,   e = X (v - R . enter S)
// by the inverses X of all chunks, computed in parallel, and state passing with three products a chunk. Backward, with
// r the gradient of e from the outputs, h = X^T (r - K . leave F) is its whole gradient; F advances as S does, with
// R_t h_t^T for K_j e_j^T. -h is the gradient of a second scan, of the keys as queries, whose tokens do not see
// themselves. Grid: a block a chunk (inverses), or 32 channels of a head's values (state passing). Wide heads are split
// into pieces (gla_passes.cuh): L sums over them. T is the stored type of queries, keys, values and errors.
#include "gpu/ops/delta/chunk_inverse.cuh"
#include "gpu/ops/delta/delta_chunks.cuh"
#include "gpu/ops/gla/gla_passes.cuh"

namespace afterglow::scan {

using namespace device;

namespace {

constexpr int column_tile = 16;  // channels of the values of a group of four warps
constexpr int strips = 2;        // such groups of a block, which share a chunk's other operands
constexpr int solve_threads = strips * block_threads;
constexpr int max_pieces = 2;  // of a head

/// Stages of the pipeline, the current one included.
constexpr int solve_stages(int pieces) { return pieces == 1 ? 3 : 2; }

template <int size>
struct InverseMemory {
  float recalls[chunk * size], keys[chunk * size];
  Decays<size> decays;
  Pairs lower;
  SteepChannel channel;
};

// The inverse X of one chunk of a whole head. The queries of `in` are the keys.
template <int size, bool exact, class T>
__global__ void __launch_bounds__(block_threads)
    kda_inverse_kernel(GlaSizes s, GlaArrays<T> in, GlaMemory from, float* inverses) {
  wait_for_previous_kernel();
  extern __shared__ float4 memory[];
  auto& m = *reinterpret_cast<InverseMemory<size>*>(memory);
  const SharedMatrix<size> R{m.recalls}, K{m.keys};
  const int whole = int(blockIdx.x), first = first_piece(s, whole);
#pragma unroll 1
  for (int piece = 0; piece < s.pieces(); ++piece) {
    const Unit unit(s, first + piece * s.chunks);
    if (piece > 0) __syncthreads();
    fetch_own<chunk>(R, from.recalls + unit.index * chunk * size, size);
    fetch_own<chunk>(K, from.keys + unit.index * chunk * size, size);
    m.decays.start(from, unit.index, false);
    commit();
    wait<0>();
    __syncthreads();
    const ThreadPosition p;
    float met[chunk / 8][4] = {};
    meet_faded<exact, false>(R, K, p, m.decays, met);
    unrolled<chunk / 8, 4>([&](int n, int i) {
      float& lower = m.lower[p.row() + i / 2 * 8][8 * n + p.column() + i % 2];
      lower = piece == 0 ? met[n][i] : lower + met[n][i];
    });
    for (int channel = 0; from.steep[4 * unit.index] != 0 && channel < s.keys; ++channel) {
      if (!is_steep(m.decays.reach, size, channel)) continue;
      m.channel.read(s, in, unit, m.decays.reach, size, channel);
      meet_in_channel(m.channel, m.lower);
    }
  }
  __syncthreads();
  if (threadIdx.x < chunk) put_inverse_column(m.lower, int(threadIdx.x), inverses + std::size_t(whole) * chunk * chunk);
}

/// Inputs and outputs of the state passing that solves for errors.
template <class T>
struct Solving {
  const T* given;         // v, or r when backward, [B,T,H,P]
  const float* inverses;  // [units of whole heads,64,64]
  float* kept;            // states before chunks or flows into them, [pieces,units,size,size]
  SinkOf<T> solved, dv;   // e, or h twice, by pieces
  float* state;           // [B,H,K,P] or null
  bool resume;
};

/// Two neighbours of a row of `width` numbers; zeros beyond.
template <class T>
__device__ float2 two_before(const T* row, int column, int width) {
  const T* from = row + column;
  if (column + 1 < width && reinterpret_cast<std::uintptr_t>(from) % (2 * sizeof(T)) == 0) return two_of(from);
  return make_float2(column < width ? float(from[0]) : 0.0f, column + 1 < width ? float(from[1]) : 0.0f);
}

template <int size, int pieces>
struct SolveMemory {
  static constexpr int keys = pieces * size;
  struct Stage {
    float readers[chunk * keys], writers[chunk * keys];  // R and K, when backward K and R
    float X[chunk * chunk], fades[sub_chunks * keys], edges[sub_chunks * keys];
  };
  struct Strip {
    float S[column_tile * keys], rest[chunk * column_tile], solved[chunk * column_tile];
  };
  Stage stages[solve_stages(pieces)];
  Strip of[strips];
};

/// Begins to copy a lower triangular matrix: its diagonal blocks of 16 x 16 and what lies below.
__device__ inline void fetch_lower(const SharedMatrix<chunk>& to, const float* from) {
  constexpr int pieces = chunk / 4, step = solve_threads / pieces;
  static_assert(step == 16);
  const int thread = hidden_thread(), row = thread / pieces, column = thread % pieces * 4;
#pragma unroll
  for (int i = 0; i < chunk; i += step)
    if (column < i + step) device::tiles::copy_piece(&to.at(i + row, column), from + (i + row) * chunk + column, true);
}

/// The errors, chunk after chunk, or when backward their gradients, of `column_tile` channels of a head's values: the
/// work of a group of four warps. `pair` counts pieces of heads' values; a warp holds the states of `own_states` keys.
template <int size, int pieces, bool exact, bool backward, class T>
struct KdaSolve {
  using Memory = SolveMemory<size, pieces>;
  using Stage = typename Memory::Stage;
  static constexpr int keys = Memory::keys, own_states = keys / 4, state_tiles = own_states / 8,
                       stages = solve_stages(pieces), tiles = size / (strips * column_tile);
  const GlaSizes& s;
  const GlaMemory& from;
  const Solving<T>& to;
  Memory& m;
  const ThreadPosition p{int(threadIdx.x) % block_threads};
  const int strip = int(threadIdx.x) / block_threads, pair = int(blockIdx.x) / tiles;
  const int whole = pair / pieces, own_piece = pair % pieces;
  const int first = (int(blockIdx.x) % tiles * strips + strip) * column_tile;
  const int number = own_states * p.warp, top = 16 * p.warp;
  const int key_piece = pieces == 1 ? 0 : number / size;  // of this warp's states
  const int first_key = number - key_piece * size;
  const SharedMatrix<keys> S{m.of[strip].S};
  const SharedMatrix<column_tile> rest{m.of[strip].rest}, solved{m.of[strip].solved};
  float now[state_tiles][4] = {};
  float2 given[2][2];

  __device__ __forceinline__ void run() {
    for (int i = 0; i + 1 < stages; ++i) start(i);
    const int row = s.width * pieces;
    float* const state = to.state + std::size_t(whole * pieces + key_piece) * s.keys * row + own_piece * s.width;
    if (!backward && to.resume)
      each_inside([&](float& held, int channel, int key) { held = state[std::size_t(key) * row + channel]; });
    read_given(0);
    for (int i = 0; i < s.chunks; ++i) {
      keep(i);
      wait<stages - 2>();
      __syncthreads();
      start(i + stages - 1);
      Stage& stage = m.stages[i % stages];
      find_rest(stage);
      read_given(i + 1);
      __syncthreads();
      solve(stage, unit_of(i));
      __syncthreads();
      advance(stage);
    }
    if (backward || to.state == nullptr) return;
    each_inside([&](float last, int channel, int key) { state[std::size_t(key) * row + channel] = last; });
  }

 private:
  __device__ int chunk_of(int i) const { return backward ? s.chunks - 1 - i : i; }
  __device__ Unit unit_of(int i) const { return Unit(s, pair * s.chunks + chunk_of(i)); }
  __device__ std::size_t key_unit(int i, int piece) const {
    return std::size_t((whole * pieces + piece) * s.chunks + chunk_of(i));
  }
  /// Calls visit(number, channel, key) for this thread's numbers of the state.
  template <class Visit>
  __device__ __forceinline__ void each_inside(const Visit& visit) {
    unrolled<state_tiles, 4>([&](int n, int i) {
      const int channel = first + p.quad + i / 2 * 8, key = first_key + 8 * n + p.column() + i % 2;
      if (channel < s.width && key < s.keys) visit(now[n][i], channel, key);
    });
  }

  /// Begins to copy what chunk i needs.
  __device__ __forceinline__ void start(int i) const {
    if (i < s.chunks) {
      Stage& stage = m.stages[i % stages];
      unrolled<pieces>([&](int piece) {
        const std::size_t unit = key_unit(i, piece), tokens = unit * chunk * size;
        const SharedMatrix<keys> readers{stage.readers}, writers{stage.writers};
        fetch_own<chunk, solve_threads, size>(readers, (backward ? from.keys : from.recalls) + tokens, size,
                                              piece * size);
        fetch_own<chunk, solve_threads, size>(writers, (backward ? from.recalls : from.keys) + tokens, size,
                                              piece * size);
        if (threadIdx.x < size) {  // four numbers each of [4,size]
          const std::size_t at = 4 * (unit * size + threadIdx.x);
          const int place = 4 * int(threadIdx.x), to_place = place / size * keys + piece * size + place % size;
          device::tiles::copy_piece(&stage.fades[to_place], from.fades + at, true);
          device::tiles::copy_piece(&stage.edges[to_place], (backward ? from.leaves : from.enters) + at, true);
        }
      });
      const auto inverse = std::size_t(whole * s.chunks + chunk_of(i));
      fetch_lower(SharedMatrix<chunk>{stage.X}, to.inverses + inverse * chunk * chunk);
    }
    commit();
  }
  __device__ __forceinline__ void read_given(int i) {
    if (i >= s.chunks) return;
    const Unit unit = unit_of(i);
    unrolled<2, 2>([&](int n, int r) {
      const int t = p.row() + 8 * r;
      given[n][r] = make_float2(0, 0);
      if (t < unit.count)
        given[n][r] = two_before(to.given + unit.at(s, t, s.width), first + 8 * n + p.column(), s.width);
    });
  }
  /// The state before chunk i, in shared memory and for the backward pass.
  __device__ __forceinline__ void keep(int i) const {
    const std::size_t met = met_at<size>(s, key_piece ^ own_piece, key_unit(i, key_piece));
    float* const kept = to.kept + met + first * size + first_key + p.column();
    unrolled<state_tiles, 2>([&](int n, int r) {
      const float2 two = make_float2(now[n][2 * r], now[n][2 * r + 1]);
      S.two(p.quad + 8 * r, number + 8 * n + p.column()) = two;
      reinterpret_cast<float2&>(kept[(p.quad + 8 * r) * size + 8 * n]) = two;
    });
  }
  /// The right-hand sides: what was given without what the state knows.
  __device__ __forceinline__ void find_rest(Stage& stage) const {
    const float* ones = stage.edges + (backward ? sub_chunks - 1 : 0) * keys;
    const auto known = multiply<exact, 2>(
        0, keys / 8, FadedRows<keys>(SharedMatrix<keys>{stage.readers}, top, stage.edges + p.warp * keys, ones),
        RightRows<keys, 2>(S, 0));
    unrolled<2, 2>([&](int n, int r) {
      const float2 own = given[n][r];
      rest.two(p.row() + 8 * r, 8 * n + p.column()) =
          make_float2(own.x - known.of(n, 2 * r), own.y - known.of(n, 2 * r + 1));
    });
  }
  /// X or its transpose times the rest.
  __device__ __forceinline__ void solve(Stage& stage, const Unit& unit) const {
    const SharedMatrix<chunk> X{stage.X};
    const RightColumns<column_tile, 2, false> right(rest, 0);
    ProductTile<exact, 2> product;
    if constexpr (backward) {
      product = multiply<exact, 2>(2 * p.warp, chunk / 8, LeftColumns<chunk>(X, top), right);
    } else {
      product = multiply<exact, 2>(0, 2 * p.warp + 2, LeftRows<chunk>(X, top), right);
    }
    unrolled<2, 2>([&](int n, int r) {
      const int t = p.row() + 8 * r, column = 8 * n + p.column();
      const float2 two = make_float2(product.of(n, 2 * r), product.of(n, 2 * r + 1));
      solved.two(t, column) = two;
      if (t >= unit.count) return;
      put_two(to.solved, unit.at(s, t), first + column, s.width, two);
      if (backward && to.dv.wanted()) put_two(to.dv, unit.at(s, t), first + column, s.width, two);
    });
  }
  /// The state behind the chunk, one sub-chunk after the other.
  __device__ __forceinline__ void advance(Stage& stage) {
    const LeftColumns<column_tile> left(solved, 0);
    const RightColumns<keys, state_tiles, false> right(SharedMatrix<keys>{stage.writers}, number);
    unrolled<sub_chunks>([&](int step) {
      const int part = backward ? sub_chunks - 1 - step : step;
      const auto added = multiply<exact, state_tiles>(2 * part, 2 * part + 2, left, right);
      const float* const fades = stage.fades + part * keys + number + p.column();
      unrolled<state_tiles, 4>(
          [&](int n, int i) { now[n][i] = fmaf(fades[8 * n + i % 2], now[n][i], added.of(n, i)); });
    });
  }
};

// Grid: a block for `strips` groups of channels of a piece of a head's values.
template <int size, int pieces, bool exact, bool backward, class T>
__global__ void __launch_bounds__(solve_threads) kda_solve_kernel(GlaSizes s, GlaMemory from, Solving<T> to) {
  wait_for_previous_kernel();
  extern __shared__ float4 memory[];
  KdaSolve<size, pieces, exact, backward, T>{s, from, to, *reinterpret_cast<SolveMemory<size, pieces>*>(memory)}.run();
}

// One warp for each row of keys of a whole head, two neighbours a lane: the gradient of keys as writers, `written`,
// also contributes to beta's.
template <class T>
__global__ void __launch_bounds__(threads)
    kda_keys_kernel(GlaSizes s, GlaArrays<T> in, const T* written, SinkOf<T> dk, Sink dbeta) {
  wait_for_previous_kernel();
  const int rows = s.batch * s.length * (s.heads >> s.halvings), keys = s.keys << s.halvings;
  const int row = int(blockIdx.x * (threads / 32) + threadIdx.x / 32);
  if (row >= rows) return;
  const std::size_t begin = std::size_t(row) * keys;
  const float beta = in.beta[row];
  const int lane = int(threadIdx.x) % 32;
  float sum = 0;
  for (int channel = 2 * lane; channel < keys; channel += 64) {
    const float2 own = two_before(in.k + begin, channel, keys), got = two_before(written + begin, channel, keys);
    sum += own.x * got.x + own.y * got.y;
    if (dk.wanted()) put_two(dk, row, channel, keys, make_float2(beta * got.x, beta * got.y));
  }
  sum = warp_sum(sum);
  if (lane == 0 && dbeta.wanted()) dbeta.put(row, sum);
}

int whole_units(const GlaSizes& s) { return s.units >> s.halvings; }
std::int64_t inverse_numbers(const GlaSizes& s) { return std::int64_t{whole_units(s)} * chunk * chunk; }
std::int64_t recall_numbers(const GlaSizes& s) { return std::int64_t{s.units} * chunk * gla_size(s); }
/// Number of floats for `width` numbers a token, in whole vectors.
std::int64_t token_floats(const DeltaInputs& in, std::int64_t width) {
  const std::int64_t numbers = in.q.shape[0] * in.q.shape[1] * in.q.shape[2] * width;
  return in.q.dtype == DType::bf16 ? (numbers + 7) / 8 * 4 : (numbers + 3) / 4 * 4;
}

template <class T>
struct KdaErrors {
  GlaPasses<T> of_answers, of_errors;
  float* inverses;
  Tensor errors;

  /// `memory` has room for `kda_memory`.
  KdaErrors(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* memory);
  template <bool backward>
  void solve(const Solving<T>& to) const;
  /// If `state` is not null it receives the last state, and is the first one with `resume`.
  void find(const Tensor& v, float* state, bool resume) const;
};

template <class T>
KdaErrors<T>::KdaErrors(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* memory)
    : of_answers{stream, gla_sizes_of(in), exact, gla_arrays_of<T>(in, dy), {}}, of_errors{} {
  of_answers.to = gla_memory_of(of_answers.s, memory);
  memory += gla_rule.memory(in);
  of_answers.to.recalls = std::exchange(memory, memory + recall_numbers(of_answers.s));
  inverses = std::exchange(memory, memory + inverse_numbers(of_answers.s));
  errors = Tensor(memory, in.v.shape, in.v.dtype);
  of_answers.in.v = errors.as<T>();
  of_errors = of_answers;
  of_errors.s.scale = -1.0f;
  of_errors.s.strict = true;
  of_errors.in.q = of_answers.in.k;
  of_errors.to.queries = of_answers.to.recalls;
}

template <class T>
template <bool backward>
void KdaErrors<T>::solve(const Solving<T>& to) const {
  const auto& [stream, s, exact, in, memory] = of_answers;
  with_gla_size<T>(s, exact, [&](auto size, auto is_exact) {
    const auto solve_with = [&](auto pieces) {
      constexpr int bytes = sizeof(SolveMemory<size(), pieces()>);
      launch("kda", kda_solve_kernel<size(), pieces(), is_exact(), backward, T>,
             unsigned(s.batch * s.heads * (size() / (strips * column_tile))), solve_threads, bytes, stream, s, memory,
             to);
    };
    if constexpr (size() == max_piece_width) {
      if (s.halvings > 0) return solve_with(std::integral_constant<int, max_pieces>());
    }
    solve_with(std::integral_constant<int, 1>());
  });
}

template <class T>
void KdaErrors<T>::find(const Tensor& v, float* state, bool resume) const {
  of_answers.prepare();
  const auto& [stream, s, exact, in, memory] = of_errors;
  with_gla_size<T>(s, exact, [&](auto size, auto is_exact) {
    constexpr int bytes = sizeof(InverseMemory<size()>);
    launch("kda", kda_inverse_kernel<size(), is_exact(), T>, unsigned(whole_units(s)), block_threads, bytes, stream, s,
           in, memory, inverses);
  });
  solve<false>({v.as<T>(), inverses, memory.states, by_pieces(s, sink_of<T>({errors, false})), {}, state, resume});
}

template <class T>
void differentiate(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                   const DeltaGrads& out) {
  const auto take = [&](std::int64_t numbers) { return std::exchange(workspace, workspace + numbers); };
  KdaErrors<T> found(stream, in, exact, dy, in.kept.defined() ? in.kept.as<float>() : take(kda_rule.memory(in)));
  if (!in.kept.defined()) found.find(in.v, nullptr, false);
  auto& [of_answers, of_errors, inverses, errors] = found;
  of_answers.to.flows = take(flow_numbers(of_answers.s));
  of_errors.to.flows = take(flow_numbers(of_answers.s));
  const Tensor received(take(token_floats(in, in.v.shape[3])), in.v.shape, in.v.dtype);
  const Tensor solved(take(token_floats(in, in.v.shape[3])), in.v.shape, in.v.dtype);
  const Tensor written(take(token_floats(in, in.k.shape[3])), in.k.shape, in.k.dtype);

  of_answers.run_state_pass(Directions::backward, nullptr, false);
  of_answers.values_backward(sink_of<T>({received, false}));
  of_answers.add_steep_backward(sink_of<T>({received, false}), {});
  const auto sink = [&](const Grad& whole) { return by_pieces(of_answers.s, sink_of<T>(whole)); };
  found.template solve<true>(
      {received.as<T>(), inverses, of_errors.to.flows, sink({solved, false}), sink(out.v), nullptr, false});
  const auto query_key_gradients = [](const GlaPasses<T>& passes, const Grad& dq, const Grad& dk, const Grad& dg) {
    const DeltaGrads grads{.v = {}, .q = dq, .k = dk, .beta = {}, .g = dg};
    passes.query_key_gradients(grads);
    passes.add_steep_backward({}, grads);
  };
  of_errors.in.dy = solved.as<T>();
  // dg is written before dk and dbeta, unlike in DeltaGrads: no layer has decays that are its keys.
  query_key_gradients(of_answers, out.q, {written, false}, out.g);
  query_key_gradients(of_errors, out.k, {written, true}, {out.g.tensor, true});
  const std::int64_t rows = in.k.rows();
  launch(kda_keys_kernel<T>, blocks_for(rows, threads / 32), threads, 0, stream, of_answers.s, of_answers.in,
         written.as<T>(), sink_of<T>({out.k.tensor, true}), sink_of(out.beta));
}

}  // namespace

bool fits_kda(const DeltaInputs& in) {
  if (!fits_gla(in)) return false;
  const GlaSizes s = gla_sizes_of(in);
  if (s.pieces() > max_pieces) return false;
  const std::size_t needed = s.halvings > 0      ? sizeof(SolveMemory<max_piece_width, max_pieces>)
                             : gla_size(s) == 32 ? sizeof(SolveMemory<32, 1>)
                                                 : sizeof(SolveMemory<max_piece_width, 1>);
  return std::size_t(max_shared_memory()) >= needed;
}

namespace {

std::int64_t kda_memory(const DeltaInputs& in) {
  const GlaSizes s = gla_sizes_of(in);
  return gla_rule.memory(in) + recall_numbers(s) + inverse_numbers(s) + token_floats(in, in.v.shape[3]);
}

std::int64_t kda_workspace(const DeltaInputs& in) {
  return (in.kept.defined() ? 0 : kda_memory(in)) + 2 * flow_numbers(gla_sizes_of(in)) +
         2 * token_floats(in, in.v.shape[3]) + token_floats(in, in.k.shape[3]);
}

void kda_by_chunks(cudaStream_t stream, const DeltaInputs& in, bool exact, float* memory, const Tensor& y,
                   const Tensor& state, bool resume) {
  with_stored_type(in.q, [&](auto stored) {
    const KdaErrors<decltype(stored)> found(stream, in, exact, {}, memory);
    found.find(in.v, state.as<float>(), resume);
    found.of_answers.answer(y);
    found.of_answers.add_steep(y);
  });
}

void kda_by_chunks_backward(cudaStream_t stream, const DeltaInputs& in, bool exact, const Tensor& dy, float* workspace,
                            const DeltaGrads& out) {
  with_stored_type(in.q, [&]<class T>(T) { differentiate<T>(stream, in, exact, dy, workspace, out); });
}

}  // namespace

const ChunkedRule kda_rule{kda_memory, kda_workspace, kda_by_chunks, kda_by_chunks_backward};

}  // namespace afterglow::scan
