// Rotary position code and the causal depthwise convolution. Bound by memory.
#include <cuda_pipeline.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <type_traits>

#include "gpu/basic/step_sizes.cuh"
#include "gpu/basic/unit_slope.cuh"
#include "gpu/cuda_backend.h"
#include "gpu/device/columns.cuh"
#include "gpu/device/device.cuh"
#include "gpu/device/fragments.cuh"
#include "gpu/device/lanes.cuh"
#include "gpu/device/launch.cuh"
#include "gpu/device/pieces.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned turn_threads = 128;

/// T: as what heads are stored.
template <class T>
struct Turned {
  Rows<T> x;  // of all heads
  SinkOf<T> y;
  unsigned heads;
  bool twos;  // a pair at a time

  __device__ void turn(std::size_t row, unsigned column, bool whole, float sine, float cosine) const {
    const T* from = &x.at(row, column);
    if (twos) {
      const float2 pair = two_of(from);
      return store_two(&y.rows.at(row, column), y.accumulate, pair.x * cosine - pair.y * sine,
                       pair.x * sine + pair.y * cosine);
    }
    const auto a = static_cast<float>(from[0]), b = whole ? static_cast<float>(from[1]) : 0.0f;
    y.put(row, column, a * cosine - b * sine);
    if (whole) y.put(row, column + 1, a * sine + b * cosine);
  }
};
template <class T>
struct TurnedPair {
  Turned<T> of[2];
  unsigned count;
};
constexpr std::int64_t many_turns = 1 << 17;
constexpr unsigned most_apart = 8;  // heads of few turns that have threads of their own

// A thread turns one pair at one position: of one head of queries or keys or, where there are many pairs, of all heads
// of both. Angles are found in float64: positions reach thousands, and a float32 angle would lose the digits that the
// sine needs. What is left of one after whole turns may be rounded.
template <class T>
__global__ void __launch_bounds__(turn_threads)
    rotary_kernel(TurnedPair<T> in, unsigned batch, unsigned length, unsigned width, double log2_base,
                  long long first_position, bool inverse) {
  const unsigned pairs = (width + 1) / 2;
  const unsigned i = blockIdx.x * turn_threads + threadIdx.x;
  if (i >= batch * length * pairs) return await_previous();
  const unsigned pair = i % pairs, position = i / pairs;
  float sine = 0, cosine = 1;
  const bool whole = 2 * pair + 1 < width;
  if (whole) {
    const double turns = static_cast<double>(first_position + position % length) * 0.15915494309189535 *
                         exp2(-2.0 * static_cast<double>(pair) / static_cast<double>(width) * log2_base);
    sincospif(static_cast<float>(2.0 * (turns - rint(turns))), &sine, &cosine);
    if (inverse) sine = -sine;
  }
  await_previous();  // angles were found meanwhile
  for (unsigned which = blockIdx.y; which < in.count; which += gridDim.y) {
    const Turned<T>& turned = in.of[which];
    if (!turned.y.wanted()) continue;
#pragma unroll 4
    for (unsigned head = blockIdx.z; head < turned.heads; head += gridDim.z)
      turned.turn(position, head * width + 2 * pair, whole, sine, cosine);
  }
}

template <class T>
Turned<T> turned_heads(const Tensor& x, const Grad& y, std::int64_t width) {
  const Rows<T> from = rows_of<T>(joined_heads(x));
  const SinkOf<T> to = y.wanted() ? sink_of<T>({joined_heads(y.tensor), y.accumulate}) : SinkOf<T>{};
  const auto in_twos = [](const Rows<T>& rows) {
    return reinterpret_cast<std::uintptr_t>(rows.data) % (2 * sizeof(T)) == 0 && rows.stride % 2 == 0;
  };
  return {from, to, from.columns / static_cast<unsigned>(width), width % 2 == 0 && in_twos(from) && in_twos(to.rows)};
}

constexpr unsigned widest = 8;  // taps; `reach` below: as many as a kernel has room for
constexpr unsigned few_taps = 4;

/// T: as what x is stored.
template <class T>
struct ConvInputs {
  Rows<T> x;  // [B T, c]
  const float *weight, *bias;
  const T* history;
  unsigned batch, length, channels, taps;

  /// Where the input of token t is, which may lie in the history; null before the first one without that.
  __device__ const T* at(unsigned b, int t, unsigned channel) const {
    if (t >= 0) return &x.at(std::size_t{b} * length + static_cast<unsigned>(t), channel);
    if (history == nullptr) return nullptr;
    return history + (std::size_t{b} * (taps - 1) + taps - 1 + t) * channels + channel;
  }
};

// The last taps - 1 inputs become the history; entries move towards the beginning, so this order overwrites nothing
// that is still to be read.
__global__ void __launch_bounds__(threads) conv_history_kernel(ConvInputs<float> in, float* history) {
  await_previous();
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i >= in.batch * in.channels) return;
  const unsigned channel = i % in.channels, b = i / in.channels, kept = in.taps - 1;
  for (unsigned k = 0; k < kept; ++k) {
    const unsigned source = k + in.length;
    history[(std::size_t{b} * kept + k) * in.channels + channel] =
        source < kept ? history[(std::size_t{b} * kept + source) * in.channels + channel]
                      : in.x.at(std::size_t{b} * in.length + source - kept, channel);
  }
}

constexpr unsigned conv_lanes = 32, conv_groups = threads / conv_lanes, conv_steps = 8;

/// The share of a thread: `conv_steps` tokens of `width` neighbouring channels.
template <unsigned width>
struct Stretch {
  unsigned b, begin, channel;
  bool inside;
  template <class T>
  __device__ explicit Stretch(const ConvInputs<T>& in) {
    const unsigned pieces = (in.length + conv_steps - 1) / conv_steps;
    const unsigned piece = blockIdx.x * conv_groups + threadIdx.x / conv_lanes;
    b = piece / pieces;
    begin = piece % pieces * conv_steps;
    channel = (blockIdx.y * conv_lanes + threadIdx.x % conv_lanes) * width;
    inside = b < in.batch && channel < in.channels;
  }
};

/// The weight of the input `back` tokens before.
template <class T>
__device__ float weight_of(const ConvInputs<T>& in, unsigned channel, unsigned back) {
  return back < in.taps ? in.weight[channel * in.taps + in.taps - 1 - back] : 0.0f;
}

/// The weights of `width` channels, by how far back their inputs lie.
template <unsigned width, unsigned reach, class T>
__device__ void load_weights(const ConvInputs<T>& in, unsigned channel, Piece<width> (&weights)[reach]) {
  const float* own = in.weight + channel * in.taps;
  const bool fours = reach % 4 == 0 && in.taps == reach && reinterpret_cast<std::uintptr_t>(own) % 16 == 0;
#pragma unroll
  for (unsigned e = 0; e < width; ++e) {
    if (fours) {
      const auto taps = Piece<reach>::of(own + e * reach, true);
#pragma unroll
      for (unsigned back = 0; back < reach; ++back) weights[back].v[e] = taps.v[reach - 1 - back];
    } else {
#pragma unroll
      for (unsigned back = 0; back < reach; ++back) weights[back].v[e] = weight_of(in, channel + e, back);
    }
  }
}

/// Blocks that a multiprocessor should hold: numbers of two bytes take little of it while they wait.
template <unsigned width, class T>
constexpr unsigned conv_blocks = width > 1 && sizeof(T) == 2 ? 3 : 2;

/// The length of a head whose numbers `lanes` neighbouring lanes hold. All lanes of the warp take part.
template <unsigned lanes, unsigned width>
__device__ float length_of_head(const Piece<width>& own) {
  return sqrtf(sum_of_lanes<lanes>(product_of(own, own)));
}

// Everything that the tokens of a piece meet is loaded first, so that no load waits for another. `lanes`: that hold a
// head which is divided by its length + eps; none when 0.
template <unsigned width, unsigned reach, unsigned lanes, class T>
__device__ void convolve(const ConvInputs<T>& in, float eps, float* before, T* y) {
  using P = Piece<width>;
  Stretch<width> piece(in);
  if (!piece.inside && (lanes == 0 || piece.b >= in.batch)) return;
  if constexpr (lanes > 0) piece.channel = min(piece.channel, in.channels - width);  // they take part in sums
  Stored<T, width> inputs[conv_steps + reach - 1];
  P weights[reach], met[reach];  // met: the inputs that a token meets
  const std::size_t row = std::size_t{piece.b} * in.length + piece.begin;
  const T* own = &in.x.at(row, piece.channel);
#pragma unroll
  for (unsigned i = 0; i < conv_steps + reach - 1; ++i) {
    const int back = static_cast<int>(reach - 1) - static_cast<int>(i);  // only a first piece's may lie in the history
    const T* from = back <= 0 || piece.begin > 0 ? own - back * static_cast<std::ptrdiff_t>(in.x.stride)
                                                 : in.at(piece.b, -back, piece.channel);
    const bool used = i + in.taps >= reach && (back >= 0 || piece.begin - back < in.length);
    inputs[i] = Stored<T, width>::of(from, used && from != nullptr);
  }
  load_weights(in, piece.channel, weights);
  const P bias = P::of(in.bias + piece.channel, in.bias != nullptr);
#pragma unroll
  for (unsigned i = 0; i + 1 < reach; ++i) met[i + 1] = P::of(inputs[i]);
  const std::size_t first = row * in.channels + piece.channel;
#pragma unroll
  for (unsigned i = 0; i < conv_steps; ++i) {
    if (piece.begin + i >= in.length) break;
#pragma unroll
    for (unsigned k = 0; k + 1 < reach; ++k) met[k] = met[k + 1];
    met[reach - 1] = P::of(inputs[i + reach - 1]);
    P sum = bias, result;
#pragma unroll
    for (unsigned e = 0; e < width; ++e) {
#pragma unroll
      for (unsigned back = reach; back-- > 0;) sum.v[e] += weights[back].v[e] * met[reach - 1 - back].v[e];
      result.v[e] = silu<T>(sum.v[e]);
    }
    if constexpr (lanes > 0) {
      const float inverse = 1.0f / (length_of_head<lanes>(result) + eps);
#pragma unroll
      for (unsigned e = 0; e < width; ++e) result.v[e] *= inverse;
    }
    const std::size_t place = first + i * in.channels;
    if (before != nullptr) sum.store(before + place);
    if (lanes == 0 || piece.inside) result.store(y + place);
  }
}

template <unsigned width, unsigned reach, unsigned lanes, class T>
__global__ void __launch_bounds__(threads, conv_blocks<width, T>)
    conv_kernel(ConvInputs<T> in, float eps, float* before, T* y) {
  await_previous();
  convolve<width, reach, lanes>(in, eps, before, y);
}

// Of a grid with one row of blocks more than the convolution needs: whether this block is in that row.
__device__ bool is_beside_convolution() { return blockIdx.y + 1 == gridDim.y; }

/// Calls body(i) for `count` numbers, in the blocks of one row.
template <class Body>
__device__ void each_of_row(unsigned count, const Body& body) {
  for (unsigned i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads) body(i);
}

// Step sizes are found by a row of blocks of their own.
template <unsigned reach, class T>
__global__ void __launch_bounds__(threads, conv_blocks<1, T>)
    conv_with_steps_kernel(ConvInputs<T> in, float* before, T* y, StepSize<T> size, Rows<float> sizes, unsigned count) {
  await_previous();
  if (!is_beside_convolution()) return convolve<1, reach, 0>(in, 0.0f, before, y);
  each_of_row(count, [&](unsigned i) { sizes[i] = size(i); });
}

// A thread walks `conv_steps` tokens of one channel.
template <unsigned reach, class T>
__device__ void convolve_back(const ConvInputs<T>& in, const float* before, const T* dy, const SinkOf<T>& dx) {
  const Stretch<1> piece(in);
  if (!piece.inside) return;
  const auto& [b, begin, channel, inside] = piece;
  // Everything that the tokens of this piece meet is loaded first, so that no load waits for another.
  float slopes[conv_steps + reach - 1], sums[conv_steps + reach - 1];
#pragma unroll
  for (unsigned i = 0; i < conv_steps + reach - 1; ++i) {
    const unsigned t = begin + i;
    const std::size_t place = (std::size_t{b} * in.length + t) * in.channels + channel;
    const bool behind = i < conv_steps + in.taps - 1 && t < in.length;
    slopes[i] = behind ? static_cast<float>(dy[place]) : 0.0f;
    sums[i] = behind ? before[place] : 0.0f;
  }
#pragma unroll
  for (unsigned i = 0; i < conv_steps + reach - 1; ++i) slopes[i] *= silu_slope<T>(sums[i]);
  float weights[reach];
#pragma unroll
  for (unsigned back = 0; back < reach; ++back) weights[back] = weight_of(in, channel, back);
#pragma unroll
  for (unsigned i = 0; i < conv_steps; ++i) {
    float gradient = 0;
#pragma unroll
    for (unsigned back = 0; back < reach; ++back) gradient += weights[back] * slopes[i + back];
    if (begin + i < in.length) dx.put(std::size_t{b} * in.length + begin + i, channel, gradient);
  }
}

template <unsigned reach, class T>
__global__ void __launch_bounds__(threads)
    conv_backward_kernel(ConvInputs<T> in, const float* before, const T* dy, SinkOf<T> dx) {
  await_previous();
  convolve_back<reach>(in, before, dy, dx);
}

template <unsigned reach, class T>
__global__ void __launch_bounds__(threads)
    conv_with_steps_backward_kernel(ConvInputs<T> in, const float* before, const T* dy, SinkOf<T> dx,
                                    StepSlope<T> slope, SinkOf<T> dsteps, unsigned count) {
  await_previous();
  if (!is_beside_convolution()) {
    if (dx.wanted()) convolve_back<reach>(in, before, dy, dx);
  } else if (dsteps.wanted()) {
    each_of_row(count, [&](unsigned i) { slope.put(i, dsteps); });
  }
}

/// Adds what one piece of one channel contributes to the gradients of its weights, [taps back], and of its bias.
template <unsigned reach, class T>
__device__ void add_piece(const ConvInputs<T>& in, const float* before, const T* dy, unsigned b, unsigned begin,
                          unsigned channel, float (&to_weight)[reach + 1]) {
  float slopes[conv_steps], befores[conv_steps], inputs[conv_steps + reach - 1];
#pragma unroll
  for (unsigned i = 0; i < conv_steps; ++i) {
    const std::size_t place = (std::size_t{b} * in.length + begin + i) * in.channels + channel;
    slopes[i] = begin + i < in.length ? static_cast<float>(dy[place]) : 0.0f;
    befores[i] = begin + i < in.length ? before[place] : 0.0f;
  }
#pragma unroll
  for (unsigned i = 0; i < conv_steps + reach - 1; ++i) {
    const unsigned t = begin + i;
    const bool ahead = i + in.taps >= reach && t + 1 >= reach && t + 1 - reach < in.length;
    inputs[i] = ahead ? static_cast<float>(in.x.at(std::size_t{b} * in.length + t + 1 - reach, channel)) : 0.0f;
  }
#pragma unroll
  for (unsigned i = 0; i < conv_steps; ++i) {
    slopes[i] *= silu_slope<T>(befores[i]);
#pragma unroll
    for (unsigned back = 0; back < reach; ++back) to_weight[back] += slopes[i] * inputs[i + reach - 1 - back];
    to_weight[reach] += slopes[i];
  }
}

// The weights of few rows: a block takes eight channels and all pieces.
template <unsigned turns, unsigned reach, class T>
__global__ void __launch_bounds__(narrow_block / turns)
    narrow_weight_kernel(ConvInputs<T> in, const float* before, const T* dy, Sink dweight, Sink dbias) {
  await_previous();
  const unsigned channel = blockIdx.x * narrow_columns + threadIdx.x % narrow_columns;
  const unsigned pieces = (in.length + conv_steps - 1) / conv_steps;
  float to_weight[turns][reach + 1] = {};  // the last one is the bias
#pragma unroll
  for (unsigned turn = 0; turn < turns; ++turn) {
    const unsigned thread = turn * narrow_block / turns + threadIdx.x;
    for (unsigned piece = thread / narrow_columns; piece < in.batch * pieces; piece += narrow_block / narrow_columns) {
      if (channel >= in.channels) break;
      add_piece<reach>(in, before, dy, piece / pieces, piece % pieces * conv_steps, channel, to_weight[turn]);
    }
  }
  finish_narrow_sums(to_weight, in.channels * (reach + 1), [&](unsigned number, float sum) {
    const unsigned c = number / (reach + 1), back = number % (reach + 1);
    if (back == reach) {
      if (dbias.wanted()) dbias.put(c, sum);
    } else if (back < in.taps && dweight.wanted()) {
      dweight.put(c * in.taps + in.taps - 1 - back, sum);
    }
  });
}

/// The gradient of a token's sums before SiLU, where heads were divided by their length behind it, from what arrives at
/// the results.
template <unsigned lanes, class T, unsigned width>
__device__ Piece<width> before_unit(float eps, const Piece<width>& sums, const Piece<width>& above) {
  Piece<width> own, slopes;
#pragma unroll
  for (unsigned e = 0; e < width; ++e) {
    const Silu both = silu_with_slope<T>(sums.v[e]);
    own.v[e] = both.value;
    slopes.v[e] = both.slope;
  }
  const UnitSlope unit(length_of_head<lanes>(own), sum_of_lanes<lanes>(product_of(own, above)), eps);
#pragma unroll
  for (unsigned e = 0; e < width; ++e) slopes.v[e] *= unit.of(own.v[e], above.v[e]);
  return slopes;
}

constexpr unsigned walk_step = 4, walk_stages = 3;             // tokens; steps of them
constexpr unsigned shortest_walk = 32, resident_blocks = 264;  // tokens; blocks

/// What a thread reads of one channel or of several neighbouring ones, step by step. Several are on their way to shared
/// memory, in pieces of each thread's own, while it works at those before.
template <unsigned width, class T>
struct WalkSteps {
  using Stored = device::Stored<T, width>;
  static constexpr bool is_ahead = sizeof(Stored) >= 4;
  static constexpr unsigned bytes = is_ahead ? walk_stages * walk_step * 2 * threads * sizeof(Stored) : 0;
  Stored* memory;

  __device__ Stored& place(unsigned step, unsigned i, unsigned which) const {
    return memory[((step % walk_stages * walk_step + i) * 2 + which) * threads + threadIdx.x];
  }
  /// Of token i of a step: its input, or what arrives at its result.
  __device__ void start(unsigned step, unsigned i, unsigned which, const T* from, bool inside) const {
    if constexpr (is_ahead)
      __pipeline_memcpy_async(&place(step, i, which), from, sizeof(Stored), inside ? 0 : sizeof(Stored));
  }
  __device__ Piece<width> take(unsigned step, unsigned i, unsigned which, const T* from, bool inside) const {
    if constexpr (is_ahead) return Piece<width>::of(place(step, i, which));
    return Piece<width>::of(from, inside);
  }
};

// All gradients of many rows: a thread walks `walk` tokens of `width` neighbouring channels, reads everything once, and
// adds what they give to the weights and, behind those of all channels, to the bias. Sums over a block's walks go to
// `partials` [blocks, channels (taps + 1)]. The sums before SiLU are found once more, and so are the lengths of heads.
template <unsigned width, unsigned reach, unsigned lanes, class T>
__global__ void __launch_bounds__(threads, 2)
    conv_walk_kernel(ConvInputs<T> in, float eps, unsigned walk, const T* dy, float* partials, SinkOf<T> dx) {
  await_previous();
  using P = Piece<width>;
  constexpr unsigned behind = reach - 1;
  extern __shared__ float4 memory[];
  __shared__ float sums[conv_groups][width * conv_lanes];
  const WalkSteps<width, T> steps{reinterpret_cast<Stored<T, width>*>(memory)};
  const unsigned lane = threadIdx.x % conv_lanes, group = threadIdx.x / conv_lanes;
  unsigned channel = (blockIdx.y * conv_lanes + lane) * width;
  const bool inside = channel < in.channels;
  if constexpr (lanes > 0) channel = min(channel, in.channels - width);  // they take part in sums
  const unsigned walks = (in.length + walk - 1) / walk;
  P weights[reach], to_weight[reach + 1] = {};  // the last one is the bias
  if (channel < in.channels) load_weights(in, channel, weights);
  const P bias = P::of(in.bias + channel, in.bias != nullptr && channel < in.channels);
  for (unsigned own = blockIdx.x * conv_groups + group; own < in.batch * walks; own += gridDim.x * conv_groups) {
    if (channel >= in.channels) break;
    const unsigned begin = own % walks * walk, end = min(begin + walk, in.length), there = min(end + behind, in.length);
    const std::size_t row = std::size_t{own / walks} * in.length;
    const T *x = &in.x.at(row, channel), *upstream = dy + row * in.channels + channel;
    const auto start = [&](unsigned step) {
#pragma unroll
      for (unsigned i = 0; i < walk_step; ++i) {
        const unsigned t = begin + step * walk_step + i;
        steps.start(step, i, 0, x + (t < there ? t * in.x.stride : 0), t < there);
        steps.start(step, i, 1, upstream + (t < there ? t * std::size_t{in.channels} : 0), t < there);
      }
      tiles::commit();
    };
#pragma unroll
    for (unsigned step = 0; step + 1 < walk_stages; ++step) start(step);
    // Of the tokens of this step, and of those before that it still meets.
    P inputs[behind + walk_step], slopes[behind + walk_step] = {};
#pragma unroll
    for (unsigned i = 0; i < behind; ++i) {
      const bool is_there = begin + i >= behind;
      inputs[i] = P::of(x + (is_there ? (begin + i - behind) * in.x.stride : 0), is_there);
    }
    for (unsigned step = 0, t = begin; t < end + behind; ++step, t += walk_step) {
      tiles::wait<walk_stages - 2>();
      P sum[walk_step];
#pragma unroll
      for (unsigned i = 0; i < walk_step; ++i) {
        inputs[behind + i] = steps.take(step, i, 0, x + (t + i) * in.x.stride, t + i < there);
        slopes[behind + i] = steps.take(step, i, 1, upstream + (t + i) * std::size_t{in.channels}, t + i < there);
        sum[i] = bias;
      }
      start(step + walk_stages - 1);
#pragma unroll
      for (unsigned i = 0; i < walk_step; ++i) {
#pragma unroll
        for (unsigned e = 0; e < width; ++e) {
#pragma unroll
          for (unsigned back = reach; back-- > 0;) sum[i].v[e] += weights[back].v[e] * inputs[behind + i - back].v[e];
        }
        if constexpr (lanes > 0) {
          slopes[behind + i] = before_unit<lanes, T>(eps, sum[i], slopes[behind + i]);
        } else {
#pragma unroll
          for (unsigned e = 0; e < width; ++e) slopes[behind + i].v[e] *= silu_slope<T>(sum[i].v[e]);
        }
        if (t + i < end) {
#pragma unroll
          for (unsigned e = 0; e < width; ++e) {
            const float slope = slopes[behind + i].v[e];
#pragma unroll
            for (unsigned back = 0; back < reach; ++back)
              to_weight[back].v[e] += slope * inputs[behind + i - back].v[e];
            to_weight[reach].v[e] += slope;
          }
        }
        if (!dx.wanted() || t + i < begin + behind || t + i >= end + behind) continue;
        P gradient = {};
#pragma unroll
        for (unsigned back = 0; back < reach; ++back) {
#pragma unroll
          for (unsigned e = 0; e < width; ++e) gradient.v[e] += weights[back].v[e] * slopes[i + back].v[e];
        }
        if (lanes == 0 || inside) gradient.put(dx, row + t + i - behind, channel);
      }
#pragma unroll
      for (unsigned i = 0; i < behind; ++i) {
        inputs[i] = inputs[walk_step + i];
        slopes[i] = slopes[walk_step + i];
      }
    }
    tiles::wait<0>();
  }
  float* own = partials + blockIdx.x * std::size_t{in.channels} * (in.taps + 1);
#pragma unroll
  for (unsigned back = 0; back <= reach; ++back) {
    if (back >= in.taps && back < reach) continue;
    __syncthreads();
    to_weight[back].store(&sums[group][lane * width]);
    __syncthreads();
    const unsigned c = blockIdx.y * conv_lanes * width + threadIdx.x;
    if (threadIdx.x >= conv_lanes * width || c >= in.channels) continue;
    float sum = 0;
#pragma unroll
    for (unsigned other = 0; other < conv_groups; ++other) sum += sums[other][threadIdx.x];
    own[back < reach ? c * in.taps + in.taps - 1 - back : in.channels * in.taps + c] = sum;
  }
}

template <class T>
ConvInputs<T> conv_inputs(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto taps = static_cast<unsigned>(weight.shape[2]);
  if (taps > widest) {
    throw Error(ExitCode::failure, "the GPU convolution has at most " + std::to_string(widest) + " taps, and " +
                                       std::to_string(taps) + " were asked for; use --device cpu");
  }
  return {rows_of<T>(x),
          weight.as<float>(),
          bias.as<float>(),
          nullptr,
          static_cast<unsigned>(x.shape[0]),
          static_cast<unsigned>(x.shape[1]),
          static_cast<unsigned>(x.shape[2]),
          taps};
}

/// Calls body with room for so many taps, as a compile-time constant.
template <class T, class Body>
void with_reach(const ConvInputs<T>& in, const Body& body) {
  if (in.taps <= few_taps) return body(std::integral_constant<unsigned, few_taps>());
  body(std::integral_constant<unsigned, widest>());
}

/// The same, and with how many channels a thread takes: four where tokens are many enough, channels lie in fours, and
/// registers suffice for that. `sums` and the bias are dense; `others` are, or have the rows of `in.x`.
template <class T, class Body>
void with_channels(const ConvInputs<T>& in, const Rows<float>& sums, std::initializer_list<Rows<T>> others,
                   const Body& body) {
  const bool fours = in.batch * in.length > max_narrow_rows && in.channels % 4 == 0 && in.taps <= few_taps &&
                     in_pieces<4>(in.x) && in_pieces<4>(sums) && reinterpret_cast<std::uintptr_t>(in.bias) % 16 == 0 &&
                     std::all_of(others.begin(), others.end(), in_pieces<4, T>);
  if (fours) return body(std::integral_constant<unsigned, 4>(), std::integral_constant<unsigned, few_taps>());
  with_reach(in, [&](auto reach) { body(std::integral_constant<unsigned, 1>(), reach); });
}

/// Calls body with how many lanes hold a head, as a compile-time constant; 0 where heads stay as they are.
template <unsigned width, class Body>
void with_lanes(const UnitHeads& heads, const Body& body) {
  if (heads.width == 0) return body(std::integral_constant<unsigned, 0>());
  if constexpr (width == 4) {
    if (heads.width == 32) return body(std::integral_constant<unsigned, 8>());
    if (heads.width == 64) return body(std::integral_constant<unsigned, 16>());
    if (heads.width == 128) return body(std::integral_constant<unsigned, 32>());
  }
  throw Error(ExitCode::failure, "the GPU convolution does not divide heads of width " + std::to_string(heads.width));
}

template <class T>
dim3 stretches(const ConvInputs<T>& in, unsigned width) {
  return {blocks_for(in.batch * blocks_for(in.length, conv_steps), conv_groups),
          blocks_for(in.channels, conv_lanes * width), 1};
}

/// The gradients of weights and bias of few rows.
template <unsigned reach, class T>
void sum_taps(const CudaBackend& backend, const ConvInputs<T>& in, const float* before, const Tensor& dy,
              const ConvolutionGrads& to) {
  with_turns([&](auto turns) {
    launch(narrow_weight_kernel<turns, reach, T>, blocks_for(in.channels, narrow_columns), narrow_block / turns, 0,
           backend.stream(), in, before, dy.as<T>(), sink_of(to.weight), sink_of(to.bias));
  });
}

dim3 with_a_row_beside(dim3 grid) {
  ++grid.y;
  return grid;
}

Rows<float> rows_if(const Tensor& given) { return given.defined() ? rows_of(given) : Rows<float>{}; }

/// All gradients of many rows.
template <class T>
void walk_back(const CudaBackend& backend, const ConvInputs<T>& in, const UnitHeads& heads, const Tensor& dy,
               const SinkOf<T>& dx, const Grad& dweight, const Grad& dbias) {
  const unsigned weights = in.channels * in.taps, all = weights + in.channels;
  float* partials = backend.scratch(std::size_t{max_ranges} * all);
  unsigned ranges = 1;
  with_channels(in, {}, {rows_of<T>(dy), dx.rows}, [&](auto width, auto reach) {
    const unsigned tiles = blocks_for(in.channels, conv_lanes * width);
    unsigned walk = shortest_walk;
    const auto blocks_of_walks = [&] { return blocks_for(in.batch * blocks_for(in.length, walk), conv_groups); };
    while (walk < in.length && blocks_of_walks() * tiles > resident_blocks) walk *= 2;
    ranges = at_most(blocks_of_walks(), at_most(resident_blocks / tiles + 1, max_ranges));
    with_lanes<width>(heads, [&](auto lanes) {
      const auto kernel = conv_walk_kernel<width, reach, lanes, T>;
      constexpr int bytes = WalkSteps<width, T>::bytes;
      allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "causal_conv_backward");
      launch(kernel, dim3(ranges, tiles), threads, bytes, backend.stream(), in, static_cast<float>(heads.eps), walk,
             dy.as<T>(), partials, dx);
    });
  });
  ColumnSums sums;
  sums.add(weights, dweight);
  sums.add(in.channels, dbias);
  column_sums_each(backend.stream(), ranges, sums, nullptr, nullptr,
                   [partials, all, first_bias = weights, of_bias = dweight.wanted() ? 1u : 0u] __device__(
                       unsigned which, unsigned row, unsigned column) {
                     return partials[row * std::size_t{all} + (which == of_bias ? first_bias : 0) + column];
                   });
}

}  // namespace

void CudaBackend::rotary(std::span<const Tensor> x, double base, std::int64_t first_position, bool inverse,
                         std::span<const Grad> y) {
  const Shape& s = x.front().shape.rank() == 4 ? x.front().shape : y.front().tensor.shape;
  const std::int64_t turns = s[0] * s[1] * ((s[3] + 1) / 2);
  if (turns == 0) return;
  with_stored_type(x.front(), [&](auto stored) {
    using T = decltype(stored);
    const TurnedPair<T> pair{{turned_heads<T>(x.front(), y.front(), s[3]), turned_heads<T>(x.back(), y.back(), s[3])},
                             static_cast<unsigned>(x.size())};
    const unsigned heads = std::max(pair.of[0].heads, pair.of[1].heads);
    const bool are_few = turns < many_turns;
    const dim3 grid(blocks_for(turns, turn_threads), are_few ? pair.count : 1,
                    are_few ? at_most(heads, most_apart) : 1);
    launch(rotary_kernel<T>, grid, turn_threads, 0, stream(), pair, static_cast<unsigned>(s[0]),
           static_cast<unsigned>(s[1]), static_cast<unsigned>(s[3]), std::log2(base), first_position, inverse);
  });
  launched("rotary");
}

void CudaBackend::causal_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& history,
                              const Tensor& before, const UnitHeads& heads, const Tensor& y) {
  if (x.elements() == 0) return;
  with_stored_type(x, [&](auto stored) {
    using T = decltype(stored);
    ConvInputs<T> in = conv_inputs<T>(x, weight, bias);
    const Rows<T> past = history.defined() ? rows_of<T>(history) : Rows<T>{};
    in.history = past.data;
    with_channels(in, rows_if(before), {rows_of<T>(y), past}, [&](auto width, auto reach) {
      with_lanes<width>(heads, [&](auto lanes) {
        launch(conv_kernel<width, reach, lanes, T>, stretches(in, width), threads, 0, stream(), in,
               static_cast<float>(heads.eps), before.as<float>(), y.as<T>());
      });
    });
  });
  launched("causal_conv");
  if (!history.defined() || weight.shape[2] < 2) return;
  const ConvInputs<float> in = conv_inputs<float>(x, weight, bias);
  launch(conv_history_kernel, blocks_for(in.batch * in.channels, threads), threads, 0, stream(), in,
         history.as<float>());
  launched("causal_conv history");
}

std::int64_t CudaBackend::causal_conv_kept(const Tensor& x) const {
  return x.rows() > max_narrow_rows ? 0 : x.elements();
}

// Where a thread of both passes takes four channels: what the tape makes lies in fours.
bool CudaBackend::makes_unit_heads(const Tensor& x, const Tensor& weight, std::int64_t width) const {
  const bool is_whole = x.dtype == DType::bf16 ? in_pieces<4>(rows_of<Brain>(x)) : in_pieces<4>(rows_of(x));
  return is_whole && x.rows() > max_narrow_rows && weight.shape[2] <= few_taps &&
         (width == 32 || width == 64 || width == 128);
}

void CudaBackend::causal_conv_backward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& before,
                                       const UnitHeads& heads, const Tensor& dy, const Grad& dx, const Grad& dweight,
                                       const Grad& dbias) {
  if (x.elements() == 0) return;
  const bool wants_weights = dweight.wanted() || dbias.wanted(), is_long = x.rows() > max_narrow_rows;
  if (is_long && (dweight.accumulate || dbias.accumulate)) await_side_stream();  // it may be writing there
  with_stored_type(x, [&](auto stored) {
    using T = decltype(stored);
    const ConvInputs<T> in = conv_inputs<T>(x, weight, bias);
    const SinkOf<T> to_x = sink_of<T>(dx);
    if (is_long) return walk_back(*this, in, heads, dy, to_x, dweight, dbias);
    with_reach(in, [&](auto reach) {
      if (wants_weights) {
        const SideStream beside(*this);
        sum_taps<reach>(*this, in, before.as<float>(), dy, {{}, dweight, dbias});
      }
      if (to_x.wanted()) {
        launch(conv_backward_kernel<reach, T>, stretches(in, 1), threads, 0, stream(), in, before.as<float>(),
               dy.as<T>(), to_x);
      }
    });
  });
  launched("causal_conv_backward");
}

// Of many tokens each takes a launch of its own, which fills the GPU. Sums beside stay apart everywhere: one launch for
// both begins sooner, in the way of the product behind, and steps take 1 to 3 % longer.
void CudaBackend::conv_with_steps(const Convolution& conv, const Tensor& y, const StepSizes& steps,
                                  const Tensor& sizes) {
  if (conv.x.rows() > max_narrow_rows || conv.x.rows() == 0) {
    causal_conv(conv.x, conv.weight, conv.bias, {}, conv.before, {}, y);
    return softplus_bias(steps.x, steps.bias, steps.range, sizes);
  }
  with_stored_type(conv.x, [&](auto stored) {
    using T = decltype(stored);
    const ConvInputs<T> in = conv_inputs<T>(conv.x, conv.weight, conv.bias);
    with_reach(in, [&](auto reach) {
      launch(conv_with_steps_kernel<reach, T>, with_a_row_beside(stretches(in, 1)), threads, 0, stream(), in,
             conv.before.as<float>(), y.as<T>(), StepSize<T>(steps), rows_of(sizes),
             static_cast<unsigned>(sizes.elements()));
    });
  });
  launched("conv_with_steps");
}

void CudaBackend::conv_with_steps_backward(const Convolution& conv, const Tensor& dy, const ConvolutionGrads& dconv,
                                           const StepSizes& steps, const Tensor& dsizes, const StepSizesGrads& dsteps) {
  if (conv.x.rows() > max_narrow_rows || conv.x.rows() == 0) {
    softplus_bias_backward(steps.x, steps.bias, steps.range, dsizes, dsteps.x, dsteps.bias);
    return causal_conv_backward(conv.x, conv.weight, conv.bias, conv.before, {}, dy, dconv.x, dconv.weight, dconv.bias);
  }
  with_stored_type(conv.x, [&](auto stored) {
    using T = decltype(stored);
    const ConvInputs<T> in = conv_inputs<T>(conv.x, conv.weight, conv.bias);
    const auto* before = conv.before.as<float>();
    const StepSlope<T> slope(steps, dsizes);
    with_reach(in, [&](auto reach) {
      {
        const SideStream beside(*this);
        column_sums(stream(), conv.x.rows(), slope.x.columns, nullptr, nullptr, dsteps.bias, slope);
        if (dconv.weight.wanted() || dconv.bias.wanted()) sum_taps<reach>(*this, in, before, dy, dconv);
      }
      if (dconv.x.wanted() || dsteps.x.wanted()) {
        launch(conv_with_steps_backward_kernel<reach, T>, with_a_row_beside(stretches(in, 1)), threads, 0, stream(), in,
               before, dy.as<T>(), sink_of<T>(dconv.x), slope, sink_of<T>(dsteps.x),
               static_cast<unsigned>(dsizes.elements()));
      }
    });
  });
  launched("conv_with_steps_backward");
}

}  // namespace afterglow
