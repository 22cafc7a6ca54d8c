// The angles of Mamba-3: sums of time steps times turns along a sequence, and their gradients. Bound by memory: many
// angles of long sequences go by chunks, all of a token side by side; others each by a warp, or by a block where the
// sequence is long. Sums are float64. T: as what a projection gave is stored.
#include <optional>

#include "gpu/cuda_backend.h"
#include "gpu/device/device.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned warps = threads / 32;
constexpr double pi = 3.14159265358979323846;

__device__ double turn_of(float raw) { return pi * static_cast<double>(tanhf(raw)); }

__device__ double into_one_turn(double angle) { return angle - 2.0 * pi * rint(angle * (0.5 / pi)); }

struct AngleSizes {
  unsigned length, heads, pairs;
  __host__ __device__ unsigned angles() const { return heads * pairs; }  // of a token
};
constexpr unsigned long_angles = 256;  // tokens, from which on a whole block sums one angle

template <class T>
struct AngleInputs {
  Rows<float> steps;
  Rows<T> raw;
  __device__ double step(std::size_t row, unsigned h) const { return static_cast<double>(steps.at(row, h)); }
  __device__ double turn(std::size_t row, unsigned pair) const {
    return turn_of(static_cast<float>(raw.at(row, pair)));
  }
};

/// Sums of a warp up to and with each lane, or from each lane to the last.
template <bool back>
__device__ double sums_along(double value, unsigned lane) {
#pragma unroll
  for (unsigned offset = 1; offset < 32; offset *= 2) {
    const double other = back ? __shfl_down_sync(full_warp, value, offset) : __shfl_up_sync(full_warp, value, offset);
    if (back ? lane + offset < 32 : lane >= offset) value += other;
  }
  return value;
}

/// The same of the tokens of `together` warps, of which a block has one group where they are several; and of all.
template <bool back, unsigned together>
__device__ double sums_of_group(double value, double& total) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const double own = sums_along<back>(value, lane);
  if constexpr (together == 1) {
    total = __shfl_sync(full_warp, own, back ? 0 : 31);
    return own;
  }
  __shared__ double of_warps[warps];
  if (lane == (back ? 0 : 31)) of_warps[warp] = own;
  __syncthreads();
  double others = 0;
  total = 0;
  for (unsigned w = 0; w < warps; ++w) {
    total += of_warps[w];
    if (back ? w > warp : w < warp) others += of_warps[w];
  }
  __syncthreads();
  return own + others;
}

/// Calls body with how many warps sum the angles of one pair of one head, as a compile-time constant.
template <class Body>
void with_warps_together(const AngleSizes& s, const Body& body) {
  static_assert(warps == 8);
  if (s.length < long_angles) return body(std::integral_constant<unsigned, 1>());
  body(std::integral_constant<unsigned, warps>());
}

AngleSizes angle_sizes(const Tensor& dt, const Tensor& turn) {
  return {static_cast<unsigned>(dt.shape[1]), static_cast<unsigned>(dt.columns()),
          static_cast<unsigned>(turn.columns())};
}

// One pair of one head along the sequence, a token a thread.
template <unsigned together, class T>
__global__ void __launch_bounds__(threads)
    angles_kernel(AngleSizes s, unsigned count, AngleInputs<T> in, float* kept, float* out) {
  await_previous();
  constexpr unsigned at_once = 32 * together;
  const unsigned i = blockIdx.x * (threads / at_once) + threadIdx.x / at_once, own = threadIdx.x % at_once;
  if (i >= count) return;
  const unsigned pair = i % s.pairs, h = i / s.pairs % s.heads, b = i / s.pairs / s.heads;
  double sum = kept != nullptr ? static_cast<double>(kept[i]) : 0.0;
  float last = 0;
  for (unsigned begin = 0; begin < s.length; begin += at_once) {
    const unsigned t = begin + own;
    const std::size_t row = std::size_t{b} * s.length + t;
    double part = 0, total;
    if (t < s.length) part = in.step(row, h) * in.turn(row, pair);
    const double angle = sum + sums_of_group<false, together>(part, total);
    last = static_cast<float>(into_one_turn(angle));
    if (t < s.length) out[(row * s.heads + h) * s.pairs + pair] = last;
    sum += total;
  }
  if (kept != nullptr && own == at_once - 1) kept[i] = last;
}

// Sums of numbers [sequences, tokens, heads, pairs] along each sequence up to and with each token, or from it on.
template <bool back, unsigned together, class Number>
__global__ void __launch_bounds__(threads)
    running_sums_kernel(AngleSizes s, unsigned count, const Number* of, Number* sums) {
  await_previous();
  constexpr unsigned at_once = 32 * together;
  const unsigned i = blockIdx.x * (threads / at_once) + threadIdx.x / at_once, own = threadIdx.x % at_once;
  if (i >= count) return;
  const unsigned sequence = i / s.angles(), rounds = (s.length + at_once - 1) / at_once;
  double sum = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned t = (back ? rounds - 1 - round : round) * at_once + own;
    const std::size_t at = (std::size_t{sequence} * s.length + t) * s.angles() + i % s.angles();
    double total;
    const double to_here = sum + sums_of_group<back, together>(t < s.length ? static_cast<double>(of[at]) : 0.0, total);
    if (t < s.length) sums[at] = static_cast<Number>(to_here);
    sum += total;
  }
}
template <bool back, class Number>
void sum_along(cudaStream_t stream, const AngleSizes& s, unsigned sequences, const Number* of, Number* sums) {
  const unsigned count = sequences * s.angles();
  with_warps_together(s, [&](auto together) {
    launch(running_sums_kernel<back, together, Number>, blocks_for(count, warps / together), threads, 0, stream, s,
           count, of, sums);
  });
}

// What dt and turn share of each angle's gradient, a number a thread.
template <class T>
__global__ void __launch_bounds__(threads)
    share_kernel(AngleSizes s, unsigned rows, AngleInputs<T> in, const float* later, Sink to_dt, SinkOf<T> to_turn) {
  await_previous();
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  const unsigned row = i / (s.heads + s.pairs), number = i % (s.heads + s.pairs);
  if (row >= rows) return;
  const float* from = later + std::size_t{row} * s.angles();
  double sum = 0;
  if (number < s.heads) {
    for (unsigned pair = 0; pair < s.pairs; ++pair)
      sum += static_cast<double>(from[number * s.pairs + pair]) * in.turn(row, pair);
    if (to_dt.wanted()) to_dt.put(row, number, static_cast<float>(sum));
    return;
  }
  const unsigned pair = number - s.heads;
  for (unsigned h = 0; h < s.heads; ++h) sum += static_cast<double>(from[h * s.pairs + pair]) * in.step(row, h);
  const double y = static_cast<double>(tanhf(static_cast<float>(in.raw.at(row, pair))));
  if (to_turn.wanted()) to_turn.put(row, pair, static_cast<float>(sum * pi * (1.0 - y * y)));
}

constexpr unsigned chunk_tokens = 32, fewest_tokens = 8, most_chunks = 32;  // of a chunk, of a block
constexpr std::int64_t many_angles = 1 << 17;                               // of all tokens
constexpr std::size_t most_places = 1 << 22;                                // that scratch memory has room for

/// Many angles of long sequences by chunks of tokens. A block takes all angles of some neighbouring chunks, a thread
/// one angle of one chunk: `places` [sequences, chunks, heads, pairs] have first the sums of other chunks, then what a
/// chunk begins with.
struct AngleChunks {
  AngleSizes sizes;
  unsigned tokens, chunks, together;  // of a chunk, of a sequence, of a block
  __host__ __device__ unsigned blocks_of_sequence() const { return (chunks + together - 1) / together; }
  __host__ __device__ unsigned tokens_of_block() const { return tokens * together; }
  unsigned threads() const { return blocks_for(together * sizes.angles(), 32) * 32; }
};

/// Nothing where sizes do not suit; `bytes_of_token`: of shared memory.
std::optional<AngleChunks> angle_chunks(const AngleSizes& s, std::int64_t sequences, std::size_t bytes_of_token) {
  if (s.length < long_angles || s.angles() > most_threads || sequences * s.length * s.angles() < many_angles) return {};
  const unsigned fitting = unsigned{threads} / s.angles();
  AngleChunks c{s, chunk_tokens, 0, fitting == 0 ? 1 : at_most(fitting, most_chunks)};
  const auto fits = [&] { return c.tokens_of_block() * bytes_of_token <= usual_shared_memory; };
  while (!fits() && c.tokens > fewest_tokens) c.tokens /= 2;
  if (!fits()) return {};
  c.chunks = blocks_for(s.length, c.tokens);
  return c;
}

struct OwnAngle {
  unsigned sequence, first_token, which, chunk, angle;  // first_token: of the block; which: of the block's chunks
  bool inside;
  std::size_t place;
  __device__ explicit OwnAngle(const AngleChunks& c) {
    const unsigned blocks = c.blocks_of_sequence(), first = blockIdx.x % blocks * c.together;
    sequence = blockIdx.x / blocks;
    first_token = first * c.tokens;
    which = threadIdx.x / c.sizes.angles();
    angle = threadIdx.x % c.sizes.angles();
    chunk = first + which;
    inside = which < c.together && chunk < c.chunks;
    place = (std::size_t{sequence} * c.chunks + chunk) * c.sizes.angles() + angle;
  }
  /// Of a token of the block, counted from its first.
  __device__ std::size_t row(const AngleChunks& c, unsigned token) const {
    return std::size_t{sequence} * c.sizes.length + first_token + token;
  }
  __device__ unsigned tokens_left(const AngleChunks& c) const {
    return min(c.tokens_of_block(), c.sizes.length - first_token);
  }
};

/// Steps and turns of a block's tokens in shared memory, zero behind the sequence.
struct BlockTurns {
  double *steps, *turns;  // [tokens, heads], [tokens, pairs]
  __device__ static std::size_t numbers(const AngleChunks& c) {
    return std::size_t{c.tokens_of_block()} * (c.sizes.heads + c.sizes.pairs);
  }
  template <class T>
  __device__ BlockTurns(const AngleChunks& c, const OwnAngle& own, const AngleInputs<T>& in, double* shared)
      : steps(shared), turns(shared + c.tokens_of_block() * c.sizes.heads) {
    const unsigned heads = c.sizes.heads, pairs = c.sizes.pairs, left = own.tokens_left(c);
    for (unsigned i = threadIdx.x; i < c.tokens_of_block() * heads; i += blockDim.x)
      steps[i] = i / heads < left ? in.step(own.row(c, i / heads), i % heads) : 0.0;
    for (unsigned i = threadIdx.x; i < c.tokens_of_block() * pairs; i += blockDim.x)
      turns[i] = i / pairs < left ? in.turn(own.row(c, i / pairs), i % pairs) : 0.0;
    __syncthreads();
  }
  /// What a token of the block adds to an angle.
  __device__ double part(const AngleSizes& s, unsigned token, unsigned angle) const {
    return steps[token * s.heads + angle / s.pairs] * turns[token * s.pairs + angle % s.pairs];
  }
};

// What each chunk adds, left where the next one begins; the first begins with what is kept.
template <class T>
__global__ void __launch_bounds__(most_threads)
    chunk_turns_kernel(AngleChunks c, AngleInputs<T> in, const float* kept, double* places) {
  await_previous();
  extern __shared__ double shared[];
  const OwnAngle own(c);
  const BlockTurns turns(c, own, in, shared);
  if (!own.inside) return;
  if (own.chunk == 0)
    places[own.place] = kept != nullptr ? static_cast<double>(kept[own.sequence * c.sizes.angles() + own.angle]) : 0.0;
  if (own.chunk + 1 == c.chunks) return;
  double sum = 0;
#pragma unroll 4
  for (unsigned token = own.which * c.tokens; token < (own.which + 1) * c.tokens; ++token)
    sum += turns.part(c.sizes, token, own.angle);
  places[own.place + c.sizes.angles()] = sum;
}

template <class T>
__global__ void __launch_bounds__(most_threads)
    chunk_angles_kernel(AngleChunks c, AngleInputs<T> in, const double* places, float* kept, float* out) {
  await_previous();
  extern __shared__ double shared[];
  const OwnAngle own(c);
  const BlockTurns turns(c, own, in, shared);
  if (!own.inside) return;
  const unsigned begin = own.which * c.tokens, end = min(begin + c.tokens, own.tokens_left(c));
  double sum = places[own.place];
  float last = 0;
#pragma unroll 4
  for (unsigned token = begin; token < end; ++token) {
    sum += turns.part(c.sizes, token, own.angle);
    last = static_cast<float>(into_one_turn(sum));
    out[own.row(c, token) * c.sizes.angles() + own.angle] = last;
  }
  if (kept != nullptr && own.chunk + 1 == c.chunks) kept[own.sequence * c.sizes.angles() + own.angle] = last;
}

/// Several tokens of a chunk at a time, so that their reads are under way together.
constexpr unsigned read_together = 8;
static_assert(fewest_tokens % read_together == 0);

/// What angles receive in the tokens of the block before `end`, the last first.
struct LastTokens {
  float v[read_together];
  __device__ LastTokens(const AngleChunks& c, const OwnAngle& own, const float* up, unsigned end) {
    const unsigned left = own.tokens_left(c);
#pragma unroll
    for (unsigned i = 0; i < read_together; ++i) {
      const unsigned token = end - 1 - i;
      v[i] = own.inside && token < left ? __ldg(up + own.row(c, token) * c.sizes.angles() + own.angle) : 0.0f;
    }
  }
};

// What the angles of each chunk receive, left where the one before ends.
__global__ void __launch_bounds__(most_threads) chunk_slopes_kernel(AngleChunks c, const float* up, double* places) {
  await_previous();
  const OwnAngle own(c);
  if (!own.inside) return;
  if (own.chunk + 1 == c.chunks) places[own.place] = 0;
  if (own.chunk == 0) return;
  const unsigned begin = own.which * c.tokens;
  double sum = 0;
  for (unsigned end = begin + c.tokens; end > begin; end -= read_together) {
    const LastTokens tokens(c, own, up, end);
#pragma unroll
    for (const float v : tokens.v) sum += static_cast<double>(v);
  }
  places[own.place - c.sizes.angles()] = sum;
}

// Each angle's gradient from its token on, `later` [tokens, heads, pairs + 1], is what dt and turn share.
template <class T>
__global__ void __launch_bounds__(most_threads)
    share_chunks_kernel(AngleChunks c, AngleInputs<T> in, const float* up, const double* places, Sink to_dt,
                        SinkOf<T> to_turn) {
  await_previous();
  extern __shared__ double shared[];
  const OwnAngle own(c);
  const unsigned heads = c.sizes.heads, pairs = c.sizes.pairs, room = pairs + 1, left = own.tokens_left(c);
  auto* later = reinterpret_cast<float*>(shared + BlockTurns::numbers(c));
  const BlockTurns turns(c, own, in, shared);
  if (own.inside) {
    const unsigned begin = own.which * c.tokens, at = own.angle / pairs * room + own.angle % pairs;
    double sum = places[own.place];
    for (unsigned end = begin + c.tokens; end > begin; end -= read_together) {
      const LastTokens tokens(c, own, up, end);
#pragma unroll
      for (unsigned i = 0; i < read_together; ++i) {
        sum += static_cast<double>(tokens.v[i]);
        later[(end - 1 - i) * heads * room + at] = static_cast<float>(sum);
      }
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; to_dt.wanted() && i < left * heads; i += blockDim.x) {
    const float* of_head = later + i * room;
    const double* of_pairs = turns.turns + i / heads * pairs;
    double sum = 0;
    for (unsigned pair = 0; pair < pairs; ++pair) sum += static_cast<double>(of_head[pair]) * of_pairs[pair];
    to_dt.put(own.row(c, i / heads), i % heads, static_cast<float>(sum));
  }
  __syncthreads();  // both may be one tensor
  for (unsigned i = threadIdx.x; to_turn.wanted() && i < left * pairs; i += blockDim.x) {
    const float* of_pair = later + i / pairs * heads * room + i % pairs;
    const double *of_heads = turns.steps + i / pairs * heads, y = turns.turns[i] / pi;
    double sum = 0;
    for (unsigned h = 0; h < heads; ++h) sum += static_cast<double>(of_pair[h * room]) * of_heads[h];
    to_turn.put(own.row(c, i / pairs), i % pairs, static_cast<float>(sum * pi * (1.0 - y * y)));
  }
}

/// False where sizes do not suit.
template <class T>
bool find_angles_by_chunks(const CudaBackend& backend, const AngleSizes& s, unsigned sequences,
                           const AngleInputs<T>& in, float* kept, float* out) {
  const std::size_t bytes_of_token = (s.heads + s.pairs) * sizeof(double);
  const std::optional<AngleChunks> c = angle_chunks(s, sequences, bytes_of_token);
  if (!c) return false;
  const std::size_t count = std::size_t{sequences} * c->chunks * s.angles();
  if (count > most_places) return false;
  auto* places = reinterpret_cast<double*>(backend.scratch(2 * count));
  const std::size_t bytes = c->tokens_of_block() * bytes_of_token;
  const unsigned blocks = sequences * c->blocks_of_sequence();
  launch(chunk_turns_kernel<T>, blocks, c->threads(), bytes, backend.stream(), *c, in, kept, places);
  sum_along<false>(backend.stream(), AngleSizes{c->chunks, s.heads, s.pairs}, sequences, places, places);
  launch(chunk_angles_kernel<T>, blocks, c->threads(), bytes, backend.stream(), *c, in, places, kept, out);
  return true;
}

/// The same for their gradients; `sums` holds a number for each angle of each token.
template <class T>
bool share_angles_by_chunks(cudaStream_t stream, const AngleSizes& s, unsigned sequences, const AngleInputs<T>& in,
                            const float* up, float* sums, const Sink& to_dt, const SinkOf<T>& to_turn) {
  const std::size_t bytes_of_token =
      (s.heads + s.pairs) * sizeof(double) + std::size_t{s.heads} * (s.pairs + 1) * sizeof(float);
  const std::optional<AngleChunks> c = angle_chunks(s, sequences, bytes_of_token);
  if (!c) return false;
  auto* places = reinterpret_cast<double*>(sums);
  const unsigned blocks = sequences * c->blocks_of_sequence();
  launch(chunk_slopes_kernel, blocks, c->threads(), 0, stream, *c, up, places);
  sum_along<true>(stream, AngleSizes{c->chunks, s.heads, s.pairs}, sequences, places, places);
  launch(share_chunks_kernel<T>, blocks, c->threads(), c->tokens_of_block() * bytes_of_token, stream, *c, in, up,
         places, to_dt, to_turn);
  return true;
}

}  // namespace

void CudaBackend::rotary_angles(const Tensor& dt, const Tensor& turn, const Tensor& carry, const Tensor& theta) {
  const AngleSizes s = angle_sizes(dt, turn);
  const auto sequences = static_cast<unsigned>(dt.shape[0]), count = sequences * s.angles();
  if (count == 0 || s.length == 0) return;
  with_stored_type(turn, [&](auto stored) {
    using T = decltype(stored);
    const AngleInputs<T> in{rows_of(dt), rows_of<T>(turn)};
    if (find_angles_by_chunks(*this, s, sequences, in, carry.as<float>(), theta.as<float>())) return;
    with_warps_together(s, [&](auto together) {
      launch(angles_kernel<together, T>, blocks_for(count, warps / together), threads, 0, stream(), s, count, in,
             carry.as<float>(), theta.as<float>());
    });
  });
  launched("rotary_angles");
}

void CudaBackend::rotary_angles_backward(const Tensor& dt, const Tensor& turn, const Tensor& dtheta, const Tensor& sums,
                                         const Grad& ddt, const Grad& dturn) {
  const AngleSizes s = angle_sizes(dt, turn);
  const auto sequences = static_cast<unsigned>(dt.shape[0]);
  if (sequences * s.angles() == 0 || s.length == 0) return;
  with_stored_type(turn, [&](auto stored) {
    using T = decltype(stored);
    const AngleInputs<T> in{rows_of(dt), rows_of<T>(turn)};
    const auto* up = dtheta.as<float>();
    auto* later = sums.as<float>();
    if (share_angles_by_chunks(stream(), s, sequences, in, up, later, sink_of(ddt), sink_of<T>(dturn))) return;
    sum_along<true>(stream(), s, sequences, up, later);
    const auto rows = static_cast<unsigned>(dt.rows());
    launch(share_kernel<T>, blocks_for(std::int64_t{rows} * (s.heads + s.pairs), threads), threads, 0, stream(), s,
           rows, in, later, sink_of(ddt), sink_of<T>(dturn));
  });
  launched("rotary_angles_backward");
}

}  // namespace afterglow
