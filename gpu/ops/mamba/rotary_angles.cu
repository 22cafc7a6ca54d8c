// The angles of Mamba-3, theta_t = sum over s <= t of dt_s pi tanh(raw_s) (mod 2 pi), and their gradients.
// Memory-bound: many angles of long sequences run by chunks, all angles of a token in parallel; otherwise one warp sums
// an angle, or one block in a long sequence. Sums are float64. T is the stored type of the projection's result.
#include <optional>

#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr double pi = 3.14159265358979323846;

__device__ double rate_of(float raw) { return pi * double(tanhf(raw)); }

__device__ double wrapped(double angle) { return angle - 2.0 * pi * rint(angle * (0.5 / pi)); }

struct AngleSizes {
  unsigned length, heads, pairs;
  __host__ __device__ unsigned angles() const { return heads * pairs; }  // of a token
};
constexpr unsigned long_angles = 256;  // tokens; in longer sequences a whole block sums one angle

template <class T>
struct AngleInputs {
  Rows<float> steps;
  Rows<T> raw;
  __device__ double step(std::size_t row, unsigned h) const { return double(steps.at(row, h)); }
  __device__ double rate(std::size_t row, unsigned pair) const { return rate_of(float(raw.at(row, pair))); }
};

/// sum_along_lanes over the tokens of `together` warps, of which a block has one group if they are several; and the
/// total.
template <bool backward, unsigned together>
__device__ double sums_of_group(double value, double& total) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const double own = sum_along_lanes<backward>(value, lane);
  if constexpr (together == 1) {
    total = __shfl_sync(full_warp, own, backward ? 0 : 31);
    return own;
  }
  __shared__ double of_warps[warps];
  if (lane == (backward ? 0 : 31)) of_warps[warp] = own;
  __syncthreads();
  double others = 0;
  total = 0;
  for (unsigned w = 0; w < warps; ++w) {
    total += of_warps[w];
    if (backward ? w > warp : w < warp) others += of_warps[w];
  }
  __syncthreads();
  return own + others;
}

/// Calls body with the number of warps that sum the angles of one pair of one head, as a compile-time constant.
template <class Body>
void with_warps_together(const AngleSizes& s, const Body& body) {
  with_either<1u, warps>(s.length < long_angles, body);
}

AngleSizes angle_sizes(const Tensor& dt, const Tensor& rate) {
  return {unsigned(dt.shape[1]), unsigned(dt.columns()), unsigned(rate.columns())};
}

// One pair of one head along the sequence, a token a thread.
template <unsigned together, class T>
__global__ void __launch_bounds__(threads)
    angles_kernel(AngleSizes s, unsigned count, AngleInputs<T> in, float* kept, float* out) {
  wait_for_previous_kernel();
  constexpr unsigned at_once = 32 * together;
  const unsigned i = blockIdx.x * (threads / at_once) + threadIdx.x / at_once, own = threadIdx.x % at_once;
  if (i >= count) return;
  const unsigned pair = i % s.pairs, h = i / s.pairs % s.heads, b = i / s.pairs / s.heads;
  double sum = kept != nullptr ? double(kept[i]) : 0.0;
  float last = 0;
  for (unsigned begin = 0; begin < s.length; begin += at_once) {
    const unsigned t = begin + own;
    const std::size_t row = std::size_t{b} * s.length + t;
    double part = 0, total;
    if (t < s.length) part = in.step(row, h) * in.rate(row, pair);
    const double angle = sum + sums_of_group<false, together>(part, total);
    last = float(wrapped(angle));
    if (t < s.length) out[(row * s.heads + h) * s.pairs + pair] = last;
    sum += total;
  }
  if (kept != nullptr && own == at_once - 1) kept[i] = last;
}

// Cumulative sums of numbers [sequences, tokens, heads, pairs] along each sequence up to each token, or from it on.
template <bool backward, unsigned together, class Number>
__global__ void __launch_bounds__(threads)
    running_sums_kernel(AngleSizes s, unsigned count, const Number* of, Number* sums) {
  wait_for_previous_kernel();
  constexpr unsigned at_once = 32 * together;
  const unsigned i = blockIdx.x * (threads / at_once) + threadIdx.x / at_once, own = threadIdx.x % at_once;
  if (i >= count) return;
  const unsigned sequence = i / s.angles(), rounds = (s.length + at_once - 1) / at_once;
  double sum = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned t = (backward ? rounds - 1 - round : round) * at_once + own;
    const std::size_t at = (std::size_t{sequence} * s.length + t) * s.angles() + i % s.angles();
    double total;
    const double to_here = sum + sums_of_group<backward, together>(t < s.length ? double(of[at]) : 0.0, total);
    if (t < s.length) sums[at] = static_cast<Number>(to_here);
    sum += total;
  }
}
template <bool backward, class Number>
void sum_along(cudaStream_t stream, const AngleSizes& s, unsigned sequences, const Number* of, Number* sums) {
  const unsigned count = sequences * s.angles();
  with_warps_together(s, [&](auto together) {
    launch(running_sums_kernel<backward, together, Number>, blocks_for(count, warps / together), threads, 0, stream, s,
           count, of, sums);
  });
}

// The gradients of dt and raw from the angles' gradients, one number a thread.
template <class T>
void share_angles(const CudaBackend& backend, const AngleSizes& s, std::int64_t rows, const AngleInputs<T>& in,
                  const float* later, const Sink& to_dt, const SinkOf<T>& to_rate) {
  map(backend, "rotary_angles_backward", rows * (s.heads + s.pairs), [=] __device__(unsigned i) {
    const unsigned row = i / (s.heads + s.pairs), number = i % (s.heads + s.pairs);
    const float* from = later + std::size_t{row} * s.angles();
    double sum = 0;
    if (number < s.heads) {
      for (unsigned pair = 0; pair < s.pairs; ++pair) sum += double(from[number * s.pairs + pair]) * in.rate(row, pair);
      if (to_dt.wanted()) to_dt.put(row, number, float(sum));
      return;
    }
    const unsigned pair = number - s.heads;
    for (unsigned h = 0; h < s.heads; ++h) sum += double(from[h * s.pairs + pair]) * in.step(row, h);
    const double y = double(tanhf(float(in.raw.at(row, pair))));
    if (to_rate.wanted()) to_rate.put(row, pair, float(sum * pi * (1.0 - y * y)));
  });
}

constexpr unsigned chunk_tokens = 32, min_tokens = 8, max_chunks = 32;  // of a chunk, of a block
constexpr std::int64_t min_angles = 1 << 17;                            // of all tokens
constexpr std::size_t max_places = 1 << 22;                             // capacity of the scratch memory

/// Many angles of long sequences by chunks of tokens. A block takes all angles of neighbouring chunks, a thread one
/// angle of one chunk. `places` [sequences, chunks, heads, pairs] first hold the sums of the chunks, then the values at
/// which chunks begin.
struct AngleChunks {
  AngleSizes sizes;
  unsigned tokens, chunks, together;  // of a chunk, of a sequence, of a block
  __host__ __device__ unsigned blocks_of_sequence() const { return (chunks + together - 1) / together; }
  __host__ __device__ unsigned tokens_of_block() const { return tokens * together; }
  unsigned threads() const { return blocks_for(together * sizes.angles(), 32) * 32; }
};

/// Empty when sizes do not suit; `bytes_of_token`: of shared memory.
std::optional<AngleChunks> angle_chunks(const AngleSizes& s, std::int64_t sequences, std::size_t bytes_of_token) {
  if (s.length < long_angles || s.angles() > max_threads || sequences * s.length * s.angles() < min_angles) return {};
  const unsigned fitting = unsigned{threads} / s.angles();
  AngleChunks c{s, chunk_tokens, 0, fitting == 0 ? 1 : at_most(fitting, max_chunks)};
  const auto fits = [&] { return c.tokens_of_block() * bytes_of_token <= default_shared_memory; };
  while (!fits() && c.tokens > min_tokens) c.tokens /= 2;
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
  /// Row of a token of the block, counted from its first.
  __device__ std::size_t row(const AngleChunks& c, unsigned token) const {
    return std::size_t{sequence} * c.sizes.length + first_token + token;
  }
  __device__ unsigned tokens_left(const AngleChunks& c) const {
    return min(c.tokens_of_block(), c.sizes.length - first_token);
  }
};

/// Steps and rates of a block's tokens in shared memory, zero beyond the sequence.
struct BlockRates {
  double *steps, *rates;  // [tokens, heads], [tokens, pairs]
  __device__ static std::size_t numbers(const AngleChunks& c) {
    return std::size_t{c.tokens_of_block()} * (c.sizes.heads + c.sizes.pairs);
  }
  template <class T>
  __device__ BlockRates(const AngleChunks& c, const OwnAngle& own, const AngleInputs<T>& in, double* shared)
      : steps(shared), rates(shared + c.tokens_of_block() * c.sizes.heads) {
    const unsigned heads = c.sizes.heads, pairs = c.sizes.pairs, left = own.tokens_left(c);
    for (unsigned i = threadIdx.x; i < c.tokens_of_block() * heads; i += blockDim.x)
      steps[i] = i / heads < left ? in.step(own.row(c, i / heads), i % heads) : 0.0;
    for (unsigned i = threadIdx.x; i < c.tokens_of_block() * pairs; i += blockDim.x)
      rates[i] = i / pairs < left ? in.rate(own.row(c, i / pairs), i % pairs) : 0.0;
    __syncthreads();
  }
  __device__ double part(const AngleSizes& s, unsigned token, unsigned angle) const {
    return steps[token * s.heads + angle / s.pairs] * rates[token * s.pairs + angle % s.pairs];
  }
};

// Adds each chunk's steps of its angles: without `writes` to `places`, at the next chunk, where the first one finds the
// carried angle; with it from there on to every angle.
template <bool writes, class T>
__global__ void __launch_bounds__(max_threads)
    chunk_angles_kernel(AngleChunks c, AngleInputs<T> in, double* places, float* kept, float* out) {
  wait_for_previous_kernel();
  extern __shared__ double shared[];
  const OwnAngle own(c);
  const BlockRates rates(c, own, in, shared);
  if (!own.inside) return;
  const unsigned begin = own.which * c.tokens, end = min(begin + c.tokens, own.tokens_left(c));
  const std::size_t carried = own.sequence * c.sizes.angles() + own.angle;
  double sum = writes ? places[own.place] : 0.0;
  float last = 0;
#pragma unroll 4
  for (unsigned token = begin; token < end; ++token) {
    sum += rates.part(c.sizes, token, own.angle);
    if (!writes) continue;
    last = float(wrapped(sum));
    out[own.row(c, token) * c.sizes.angles() + own.angle] = last;
  }
  const bool is_last = own.chunk + 1 == c.chunks;
  if (writes && kept != nullptr && is_last) kept[carried] = last;
  if (!writes && own.chunk == 0) places[own.place] = kept != nullptr ? double(kept[carried]) : 0.0;
  if (!writes && !is_last) places[own.place + c.sizes.angles()] = sum;
}

/// Tokens of a chunk that are read together, so that the loads overlap.
constexpr unsigned read_together = 8;
static_assert(min_tokens % read_together == 0);

/// The gradients of an angle in the tokens of the block before `end`, the last first.
struct LastTokens {
  float v[read_together];
  __device__ LastTokens(const AngleChunks& c, const OwnAngle& own, const float* up, unsigned end) {
    const unsigned left = own.tokens_left(c);
    unrolled<read_together>([&](unsigned i) {
      const unsigned token = end - 1 - i;
      v[i] = own.inside && token < left ? __ldg(up + own.row(c, token) * c.sizes.angles() + own.angle) : 0.0f;
    });
  }
};

// The sum of the angles' gradients of each chunk, stored at the previous one.
__global__ void __launch_bounds__(max_threads) chunk_slopes_kernel(AngleChunks c, const float* up, double* places) {
  wait_for_previous_kernel();
  const OwnAngle own(c);
  if (!own.inside) return;
  if (own.chunk + 1 == c.chunks) places[own.place] = 0;
  if (own.chunk == 0) return;
  const unsigned begin = own.which * c.tokens;
  double sum = 0;
  for (unsigned end = begin + c.tokens; end > begin; end -= read_together) {
    const LastTokens tokens(c, own, up, end);
    for (const float v : tokens.v) sum += double(v);
  }
  places[own.place - c.sizes.angles()] = sum;
}

// The gradients of dt and raw from each angle's gradient summed from its token on, `later` [tokens, heads, pairs + 1].
template <class T>
__global__ void __launch_bounds__(max_threads)
    share_chunks_kernel(AngleChunks c, AngleInputs<T> in, const float* up, const double* places, Sink to_dt,
                        SinkOf<T> to_rate) {
  wait_for_previous_kernel();
  extern __shared__ double shared[];
  const OwnAngle own(c);
  const unsigned heads = c.sizes.heads, pairs = c.sizes.pairs, room = pairs + 1, left = own.tokens_left(c);
  auto* later = reinterpret_cast<float*>(shared + BlockRates::numbers(c));
  const BlockRates rates(c, own, in, shared);
  if (own.inside) {
    const unsigned begin = own.which * c.tokens, at = own.angle / pairs * room + own.angle % pairs;
    double sum = places[own.place];
    for (unsigned end = begin + c.tokens; end > begin; end -= read_together) {
      const LastTokens tokens(c, own, up, end);
      unrolled<read_together>([&](unsigned i) {
        sum += double(tokens.v[i]);
        later[(end - 1 - i) * heads * room + at] = float(sum);
      });
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; to_dt.wanted() && i < left * heads; i += blockDim.x) {
    const float* of_head = later + i * room;
    const double* of_pairs = rates.rates + i / heads * pairs;
    double sum = 0;
    for (unsigned pair = 0; pair < pairs; ++pair) sum += double(of_head[pair]) * of_pairs[pair];
    to_dt.put(own.row(c, i / heads), i % heads, float(sum));
  }
  __syncthreads();  // both may be one tensor
  for (unsigned i = threadIdx.x; to_rate.wanted() && i < left * pairs; i += blockDim.x) {
    const float* of_pair = later + i / pairs * heads * room + i % pairs;
    const double *of_heads = rates.steps + i / pairs * heads, y = rates.rates[i] / pi;
    double sum = 0;
    for (unsigned h = 0; h < heads; ++h) sum += double(of_pair[h * room]) * of_heads[h];
    to_rate.put(own.row(c, i / pairs), i % pairs, float(sum * pi * (1.0 - y * y)));
  }
}

/// False when sizes do not suit.
template <class T>
bool find_angles_by_chunks(const CudaBackend& backend, const AngleSizes& s, unsigned sequences,
                           const AngleInputs<T>& in, float* kept, float* out) {
  const std::size_t bytes_of_token = (s.heads + s.pairs) * sizeof(double);
  const std::optional<AngleChunks> c = angle_chunks(s, sequences, bytes_of_token);
  if (!c) return false;
  const std::size_t count = std::size_t{sequences} * c->chunks * s.angles();
  if (count > max_places) return false;
  auto* places = reinterpret_cast<double*>(backend.scratch(2 * count));
  const std::size_t bytes = c->tokens_of_block() * bytes_of_token;
  const unsigned blocks = sequences * c->blocks_of_sequence();
  launch(chunk_angles_kernel<false, T>, blocks, c->threads(), bytes, backend.stream(), *c, in, places, kept, nullptr);
  sum_along<false>(backend.stream(), AngleSizes{c->chunks, s.heads, s.pairs}, sequences, places, places);
  launch(chunk_angles_kernel<true, T>, blocks, c->threads(), bytes, backend.stream(), *c, in, places, kept, out);
  return true;
}

/// The same for the gradients; `sums` holds a number for each angle of each token.
template <class T>
bool share_angles_by_chunks(cudaStream_t stream, const AngleSizes& s, unsigned sequences, const AngleInputs<T>& in,
                            const float* up, float* sums, const Sink& to_dt, const SinkOf<T>& to_rate) {
  const std::size_t bytes_of_token =
      (s.heads + s.pairs) * sizeof(double) + std::size_t{s.heads} * (s.pairs + 1) * sizeof(float);
  const std::optional<AngleChunks> c = angle_chunks(s, sequences, bytes_of_token);
  if (!c) return false;
  auto* places = reinterpret_cast<double*>(sums);
  const unsigned blocks = sequences * c->blocks_of_sequence();
  launch(chunk_slopes_kernel, blocks, c->threads(), 0, stream, *c, up, places);
  sum_along<true>(stream, AngleSizes{c->chunks, s.heads, s.pairs}, sequences, places, places);
  launch(share_chunks_kernel<T>, blocks, c->threads(), c->tokens_of_block() * bytes_of_token, stream, *c, in, up,
         places, to_dt, to_rate);
  return true;
}

}  // namespace

void CudaBackend::rotary_angles(const Tensor& dt, const Tensor& rate, const Tensor& carry, const Tensor& theta) {
  const AngleSizes s = angle_sizes(dt, rate);
  const auto sequences = unsigned(dt.shape[0]), count = sequences * s.angles();
  if (count == 0 || s.length == 0) return;
  with_stored_type(rate, [&]<class T>(T) {
    const AngleInputs<T> in{rows_of(dt), rows_of<T>(rate)};
    if (find_angles_by_chunks(*this, s, sequences, in, carry.as<float>(), theta.as<float>())) return;
    with_warps_together(s, [&](auto together) {
      launch(angles_kernel<together, T>, blocks_for(count, warps / together), threads, 0, stream(), s, count, in,
             carry.as<float>(), theta.as<float>());
    });
  });
  launched("rotary_angles");
}

void CudaBackend::rotary_angles_backward(const Tensor& dt, const Tensor& rate, const Tensor& dtheta, const Tensor& sums,
                                         const Grad& ddt, const Grad& drate) {
  const AngleSizes s = angle_sizes(dt, rate);
  const auto sequences = unsigned(dt.shape[0]);
  if (sequences * s.angles() == 0 || s.length == 0) return;
  with_stored_type(rate, [&]<class T>(T) {
    const AngleInputs<T> in{rows_of(dt), rows_of<T>(rate)};
    const auto* up = dtheta.as<float>();
    auto* later = sums.as<float>();
    if (share_angles_by_chunks(stream(), s, sequences, in, up, later, sink_of(ddt), sink_of<T>(drate))) return;
    sum_along<true>(stream(), s, sequences, up, later);
    share_angles(*this, s, dt.rows(), in, later, sink_of(ddt), sink_of<T>(drate));
  });
  launched("rotary_angles_backward");
}

}  // namespace afterglow
