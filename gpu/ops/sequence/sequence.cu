// RoPE, (a, b) -> (a cos - b sin, a sin + b cos) for pairs of a head at each position, and the causal depthwise
// convolution y_t = silu(bias + sum over taps of w_i x_{t-i}) of [B,T,channels]. Memory-bound. Grid: a pair of one or
// all heads a thread; eight tokens of one to four channels a thread, backward 32 tokens or more when there are many.
#include <cuda_pipeline.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <type_traits>

#include "gpu/ops/elementwise/step_sizes.cuh"
#include "gpu/ops/norm/unit_slope.cuh"
#include "gpu/ops/product/few_rows.h"
#include "gpu/tile/columns.cuh"
#include "gpu/tile/fragments.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned rope_threads = 128;

/// T is the stored type of heads.
template <class T>
struct RopeTensor {
  Rows<T> x;  // of all heads
  SinkOf<T> y;
  unsigned heads;
  bool twos;  // pairs can be read at once

  __device__ void rotate(std::size_t row, unsigned column, bool whole, float sine, float cosine) const {
    const T* from = &x.at(row, column);
    if (twos) {
      const float2 pair = two_of(from);
      return store_two(&y.rows.at(row, column), y.accumulate, pair.x * cosine - pair.y * sine,
                       pair.x * sine + pair.y * cosine);
    }
    const auto a = float(from[0]), b = whole ? float(from[1]) : 0.0f;
    y.put(row, column, a * cosine - b * sine);
    if (whole) y.put(row, column + 1, a * sine + b * cosine);
  }
};
template <class T>
struct RopePair {
  RopeTensor<T> of[2];
  unsigned count;
};
constexpr std::int64_t many_rotations = 1 << 17;
constexpr unsigned max_apart = 8;  // heads with threads of their own, when there are few rotations

// A thread rotates one pair at one position: of one head of queries or keys or, with many pairs, of all heads of both.
// Angles are computed in float64, because positions reach thousands and a float32 angle would lose the digits that the
// sine needs; the remainder after whole revolutions may be rounded.
template <class T>
__global__ void __launch_bounds__(rope_threads)
    rotary_kernel(RopePair<T> in, unsigned batch, unsigned length, unsigned width, RotaryRates rates, double log2_base,
                  long long first_position, bool inverse) {
  const unsigned pairs = (width + 1) / 2;
  const unsigned i = blockIdx.x * rope_threads + threadIdx.x;
  if (i >= batch * length * pairs) return wait_for_previous_kernel();
  const unsigned pair = i % pairs, position = i / pairs;
  float sine = 0, cosine = 1;
  const bool whole = 2 * pair + 1 < width;
  if (whole && 2 * pair < rates.width) {
    const double rate = exp2(-2.0 * double(pair) / double(rates.width) * log2_base);
    const double revolutions =
        double(first_position + position % length) * 0.15915494309189535 * rate * rates.stretch(pair, rate);
    sincospif(float(2.0 * (revolutions - rint(revolutions))), &sine, &cosine);
    if (inverse) sine = -sine;
    const auto gain = float(rates.gain);
    sine *= gain;
    cosine *= gain;
  }
  wait_for_previous_kernel();  // the angles were computed before
  for (unsigned which = blockIdx.y; which < in.count; which += gridDim.y) {
    const RopeTensor<T>& tensor = in.of[which];
    if (!tensor.y.wanted()) continue;
#pragma unroll 4
    for (unsigned head = blockIdx.z; head < tensor.heads; head += gridDim.z)
      tensor.rotate(position, head * width + 2 * pair, whole, sine, cosine);
  }
}

template <class T>
RopeTensor<T> rope_tensor(const Tensor& x, const Grad& y, std::int64_t width) {
  const Rows<T> from = rows_of<T>(joined_heads(x));
  const SinkOf<T> to = y.wanted() ? sink_of<T>({joined_heads(y.tensor), y.accumulate}) : SinkOf<T>{};
  const auto in_twos = [](const Rows<T>& rows) {
    return reinterpret_cast<std::uintptr_t>(rows.data) % (2 * sizeof(T)) == 0 && rows.stride % 2 == 0;
  };
  return {from, to, from.columns / unsigned(width), width % 2 == 0 && in_twos(from) && in_twos(to.rows)};
}

constexpr unsigned max_taps = 8;  // maximum taps; `reach` below: the capacity of a kernel
constexpr unsigned few_taps = 4;

/// T is the stored type of x.
template <class T>
struct ConvInputs {
  Rows<T> x;  // [B T, c]
  const float *weight, *bias;
  const T* history;
  unsigned batch, length, channels, taps;

  /// Address of the input of token t, which may lie in the history; null before the first token without history.
  __device__ const T* at(unsigned b, int t, unsigned channel) const {
    if (t >= 0) return &x.at(std::size_t{b} * length + unsigned(t), channel);
    if (history == nullptr) return nullptr;
    return history + (std::size_t{b} * (taps - 1) + taps - 1 + t) * channels + channel;
  }
};

// The last taps - 1 inputs become the history. Entries move towards the beginning, so this order overwrites no unread
// entry.
void keep_history(const CudaBackend& backend, const ConvInputs<float>& in, float* history) {
  map(backend, "causal_conv history", std::int64_t{in.batch} * in.channels, [=] __device__(unsigned i) {
    const unsigned channel = i % in.channels, b = i / in.channels, kept = in.taps - 1;
    for (unsigned k = 0; k < kept; ++k) {
      const unsigned source = k + in.length;
      history[(std::size_t{b} * kept + k) * in.channels + channel] =
          source < kept ? history[(std::size_t{b} * kept + source) * in.channels + channel]
                        : in.x.at(std::size_t{b} * in.length + source - kept, channel);
    }
  });
}

constexpr unsigned conv_lanes = 32, conv_groups = threads / conv_lanes, conv_steps = 8;

/// A thread's work: `conv_steps` tokens of `width` neighbouring channels.
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

/// The weight of the input `lag` tokens earlier.
template <class T>
__device__ float weight_of(const ConvInputs<T>& in, unsigned channel, unsigned lag) {
  return lag < in.taps ? in.weight[channel * in.taps + in.taps - 1 - lag] : 0.0f;
}

/// The weights of `width` channels by lag.
template <unsigned width, unsigned reach, class T>
__device__ void load_weights(const ConvInputs<T>& in, unsigned channel, Piece<width> (&weights)[reach]) {
  const float* own = in.weight + channel * in.taps;
  const bool fours = reach % 4 == 0 && in.taps == reach && reinterpret_cast<std::uintptr_t>(own) % 16 == 0;
  unrolled<width>([&](unsigned e) {
    if (fours) {
      const auto taps = Piece<reach>::of(own + e * reach, true);
      unrolled<reach>([&](unsigned lag) { weights[lag].v[e] = taps.v[reach - 1 - lag]; });
    } else {
      unrolled<reach>([&](unsigned lag) { weights[lag].v[e] = weight_of(in, channel + e, lag); });
    }
  });
}

/// Minimum blocks of a multiprocessor: two-byte numbers need few registers while they are in flight.
template <unsigned width, class T>
constexpr unsigned conv_blocks = width > 1 && sizeof(T) == 2 ? 3 : 2;

/// The length of a head whose numbers `lanes` neighbouring lanes hold. All lanes of the warp call.
template <unsigned lanes, unsigned width>
__device__ float length_of_head(const Piece<width>& own) {
  return sqrtf(sum_of_lanes<lanes>(product_of(own, own)));
}

/// Elementwise work that a row of blocks of its own does in the launch of a convolution: body(i) for `count` numbers.
template <class Body>
struct ExtraRow {
  Body body;
  unsigned count = 0;
  /// Whether this block is in that row, the last one; then it does its part.
  __device__ bool run() const {
    if (count == 0 || blockIdx.y + 1 < gridDim.y) return false;
    for (unsigned i = blockIdx.x * threads + threadIdx.x; i < count; i += gridDim.x * threads) body(i);
    return true;
  }
};
struct NoRow {
  static constexpr unsigned count = 0;
  __device__ static bool run() { return false; }
};

// All inputs of a thread's tokens are loaded first, so that the loads overlap. `lanes`: lanes of a head that is divided
// by its length + eps; 0: none. `moved`, where it is not null, is the history, which the thread of a channel moves on
// by the one token of each sequence.
template <unsigned width, unsigned reach, unsigned lanes, class T, class Extra>
__global__ void __launch_bounds__(threads, conv_blocks<width, T>)
    conv_kernel(ConvInputs<T> in, float eps, float* before, T* y, T* moved, Extra extra) {
  wait_for_previous_kernel(moved != nullptr);
  if (extra.run()) return;
  using P = Piece<width>;
  Stretch<width> piece(in);
  if (!piece.inside && (lanes == 0 || piece.b >= in.batch)) return;
  if constexpr (lanes > 0) piece.channel = min(piece.channel, in.channels - width);  // they take part in sums
  Stored<T, width> inputs[conv_steps + reach - 1];
  P weights[reach], met[reach];  // met: the inputs of a token
  const std::size_t row = std::size_t{piece.b} * in.length + piece.begin;
  const T* own = &in.x.at(row, piece.channel);
  unrolled<conv_steps + reach - 1>([&](unsigned i) {
    const int lag = int(reach - 1) - int(i);  // only a first piece reads the history
    const T* from = lag <= 0 || piece.begin > 0 ? own - lag * static_cast<std::ptrdiff_t>(in.x.stride)
                                                : in.at(piece.b, -lag, piece.channel);
    const bool used = i + in.taps >= reach && (lag >= 0 || piece.begin - lag < in.length);
    inputs[i] = Stored<T, width>::of(from, used && from != nullptr);
  });
  if (width == 1 && moved != nullptr) {
    const unsigned kept = in.taps - 1;
    unrolled<reach>([&](unsigned i) {
      if (i + kept >= reach)
        inputs[i].store(moved + (std::size_t{piece.b} * kept + i + kept - reach) * in.channels + piece.channel);
    });
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
    unrolled<width>([&](unsigned e) {
#pragma unroll
      for (unsigned lag = reach; lag-- > 0;) sum.v[e] += weights[lag].v[e] * met[reach - 1 - lag].v[e];
      result.v[e] = silu<T>(sum.v[e]);
    });
    if constexpr (lanes > 0) {
      const float inverse = 1.0f / (length_of_head<lanes>(result) + eps);
      unrolled<width>([&](unsigned e) { result.v[e] *= inverse; });
    }
    const std::size_t place = first + i * in.channels;
    if (before != nullptr) sum.store(before + place);
    if (lanes == 0 || piece.inside) result.store(y + place);
  }
}

// A thread computes the gradient of `conv_steps` tokens of one channel.
template <unsigned reach, class T, class Extra>
__global__ void __launch_bounds__(threads)
    conv_backward_kernel(ConvInputs<T> in, const float* before, const T* dy, SinkOf<T> dx, Extra extra) {
  wait_for_previous_kernel();
  if (extra.run() || !dx.wanted()) return;
  const Stretch<1> piece(in);
  if (!piece.inside) return;
  const auto& [b, begin, channel, inside] = piece;
  // All numbers of this piece's tokens are loaded first, so that the loads overlap.
  float slopes[conv_steps + reach - 1], sums[conv_steps + reach - 1];
  unrolled<conv_steps + reach - 1>([&](unsigned i) {
    const unsigned t = begin + i;
    const std::size_t place = (std::size_t{b} * in.length + t) * in.channels + channel;
    const bool behind = i < conv_steps + in.taps - 1 && t < in.length;
    slopes[i] = behind ? float(dy[place]) : 0.0f;
    sums[i] = behind ? before[place] : 0.0f;
  });
  unrolled<conv_steps + reach - 1>([&](unsigned i) { slopes[i] *= silu_slope<T>(sums[i]); });
  float weights[reach];
  unrolled<reach>([&](unsigned lag) { weights[lag] = weight_of(in, channel, lag); });
  unrolled<conv_steps>([&](unsigned i) {
    float gradient = 0;
    unrolled<reach>([&](unsigned lag) { gradient += weights[lag] * slopes[i + lag]; });
    if (begin + i < in.length) dx.put(std::size_t{b} * in.length + begin + i, channel, gradient);
  });
}

/// Adds the part of one piece of one channel to the gradients of its weights, by lag, and of its bias.
template <unsigned reach, class T>
__device__ void add_piece(const ConvInputs<T>& in, const float* before, const T* dy, unsigned b, unsigned begin,
                          unsigned channel, float (&to_weight)[reach + 1]) {
  float slopes[conv_steps], befores[conv_steps], inputs[conv_steps + reach - 1];
  unrolled<conv_steps>([&](unsigned i) {
    const std::size_t place = (std::size_t{b} * in.length + begin + i) * in.channels + channel;
    slopes[i] = begin + i < in.length ? float(dy[place]) : 0.0f;
    befores[i] = begin + i < in.length ? before[place] : 0.0f;
  });
  unrolled<conv_steps + reach - 1>([&](unsigned i) {
    const unsigned t = begin + i;
    const bool ahead = i + in.taps >= reach && t + 1 >= reach && t + 1 - reach < in.length;
    inputs[i] = ahead ? float(in.x.at(std::size_t{b} * in.length + t + 1 - reach, channel)) : 0.0f;
  });
  unrolled<conv_steps>([&](unsigned i) {
    slopes[i] *= silu_slope<T>(befores[i]);
    unrolled<reach>([&](unsigned lag) { to_weight[lag] += slopes[i] * inputs[i + reach - 1 - lag]; });
    to_weight[reach] += slopes[i];
  });
}

// The weights' gradients with few rows: a block takes eight channels and all pieces.
template <unsigned rounds, unsigned reach, class T>
__global__ void __launch_bounds__(narrow_block / rounds)
    narrow_weight_kernel(ConvInputs<T> in, const float* before, const T* dy, Sink dweight, Sink dbias) {
  wait_for_previous_kernel();
  const unsigned channel = blockIdx.x * narrow_columns + threadIdx.x % narrow_columns;
  const unsigned pieces = (in.length + conv_steps - 1) / conv_steps;
  float to_weight[rounds][reach + 1] = {};  // the last one is the bias
  unrolled<rounds>([&](unsigned round) {
    const unsigned thread = round * (narrow_block / rounds) + threadIdx.x;
    for (unsigned piece = thread / narrow_columns; piece < in.batch * pieces; piece += narrow_block / narrow_columns) {
      if (channel >= in.channels) break;
      add_piece<reach>(in, before, dy, piece / pieces, piece % pieces * conv_steps, channel, to_weight[round]);
    }
  });
  finish_narrow_sums(to_weight, in.channels * (reach + 1), [&](unsigned number, float sum) {
    const unsigned c = number / (reach + 1), lag = number % (reach + 1);
    if (lag == reach) {
      if (dbias.wanted()) dbias.put(c, sum);
    } else if (lag < in.taps && dweight.wanted()) {
      dweight.put(c * in.taps + in.taps - 1 - lag, sum);
    }
  });
}

/// The gradient of a token's sums before SiLU from that of the results, when heads were divided by their length
/// afterwards.
template <unsigned lanes, class T, unsigned width>
__device__ Piece<width> before_unit(float eps, const Piece<width>& sums, const Piece<width>& above) {
  Piece<width> own, slopes;
  unrolled<width>([&](unsigned e) {
    const Silu both = silu_with_slope<T>(sums.v[e]);
    own.v[e] = both.value;
    slopes.v[e] = both.slope;
  });
  const UnitSlope unit(length_of_head<lanes>(own), sum_of_lanes<lanes>(product_of(own, above)), eps);
  unrolled<width>([&](unsigned e) { slopes.v[e] *= unit.of(own.v[e], above.v[e]); });
  return slopes;
}

constexpr unsigned step_tokens = 4, stretch_stages = 3;  // tokens; steps in the pipeline
constexpr unsigned min_stretch = 32;                     // tokens

/// A thread's inputs of one channel or of several neighbouring ones, step by step. With several, later steps are copied
/// to the thread's own shared memory while it works on earlier ones.
template <unsigned width, class T>
struct StretchSteps {
  using Stored = device::Stored<T, width>;
  static constexpr bool is_ahead = sizeof(Stored) >= 4;
  static constexpr unsigned bytes = is_ahead ? stretch_stages * step_tokens * 2 * threads * sizeof(Stored) : 0;
  Stored* memory;

  __device__ Stored& place(unsigned step, unsigned i, unsigned which) const {
    return memory[((step % stretch_stages * step_tokens + i) * 2 + which) * threads + threadIdx.x];
  }
  /// Of token i of a step: its input, or the gradient of its result.
  __device__ void start(unsigned step, unsigned i, unsigned which, const T* from, bool inside) const {
    if constexpr (is_ahead)
      __pipeline_memcpy_async(&place(step, i, which), from, sizeof(Stored), inside ? 0 : sizeof(Stored));
  }
  __device__ Piece<width> take(unsigned step, unsigned i, unsigned which, const T* from, bool inside) const {
    if constexpr (is_ahead) return Piece<width>::of(place(step, i, which));
    return Piece<width>::of(from, inside);
  }
};

// All gradients with many rows: a thread takes `stretch` tokens of `width` neighbouring channels, reads everything
// once, and adds the weights' gradients and, behind those of all channels, the bias's. Sums over a block's stretches go
// to `partials` [blocks, channels (taps + 1)]. The sums before SiLU and the lengths of heads are recomputed.
template <unsigned width, unsigned reach, unsigned lanes, class T>
__global__ void __launch_bounds__(threads, 2) conv_backward_long_kernel(ConvInputs<T> in, float eps, unsigned stretch,
                                                                        const T* dy, float* partials, SinkOf<T> dx) {
  wait_for_previous_kernel();
  using P = Piece<width>;
  constexpr unsigned behind = reach - 1;
  extern __shared__ float4 memory[];
  __shared__ float sums[conv_groups][width * conv_lanes];
  const StretchSteps<width, T> steps{reinterpret_cast<Stored<T, width>*>(memory)};
  const unsigned lane = threadIdx.x % conv_lanes, group = threadIdx.x / conv_lanes;
  unsigned channel = (blockIdx.y * conv_lanes + lane) * width;
  const bool inside = channel < in.channels;
  if constexpr (lanes > 0) channel = min(channel, in.channels - width);  // they take part in sums
  const unsigned stretches = (in.length + stretch - 1) / stretch;
  P weights[reach], to_weight[reach + 1] = {};  // the last one is the bias
  if (channel < in.channels) load_weights(in, channel, weights);
  const P bias = P::of(in.bias + channel, in.bias != nullptr && channel < in.channels);
  for (unsigned own = blockIdx.x * conv_groups + group; own < in.batch * stretches; own += gridDim.x * conv_groups) {
    if (channel >= in.channels) break;
    const unsigned begin = own % stretches * stretch, end = min(begin + stretch, in.length),
                   last_input = min(end + behind, in.length);
    const std::size_t row = std::size_t{own / stretches} * in.length;
    const T *x = &in.x.at(row, channel), *upstream = dy + row * in.channels + channel;
    const auto start = [&](unsigned step) {
      unrolled<step_tokens>([&](unsigned i) {
        const unsigned t = begin + step * step_tokens + i;
        steps.start(step, i, 0, x + (t < last_input ? t * in.x.stride : 0), t < last_input);
        steps.start(step, i, 1, upstream + (t < last_input ? t * std::size_t{in.channels} : 0), t < last_input);
      });
      tiles::commit();
    };
#pragma unroll
    for (unsigned step = 0; step + 1 < stretch_stages; ++step) start(step);
    // Of the tokens of this step, and of earlier ones that it still needs.
    P inputs[behind + step_tokens], slopes[behind + step_tokens] = {};
    unrolled<behind>([&](unsigned i) {
      const bool is_inside = begin + i >= behind;
      inputs[i] = P::of(x + (is_inside ? (begin + i - behind) * in.x.stride : 0), is_inside);
    });
    for (unsigned step = 0, t = begin; t < end + behind; ++step, t += step_tokens) {
      tiles::wait<stretch_stages - 2>();
      P sum[step_tokens];
      unrolled<step_tokens>([&](unsigned i) {
        inputs[behind + i] = steps.take(step, i, 0, x + (t + i) * in.x.stride, t + i < last_input);
        slopes[behind + i] = steps.take(step, i, 1, upstream + (t + i) * std::size_t{in.channels}, t + i < last_input);
        sum[i] = bias;
      });
      start(step + stretch_stages - 1);
#pragma unroll
      for (unsigned i = 0; i < step_tokens; ++i) {
        unrolled<width>([&](unsigned e) {
#pragma unroll
          for (unsigned lag = reach; lag-- > 0;) sum[i].v[e] += weights[lag].v[e] * inputs[behind + i - lag].v[e];
        });
        if constexpr (lanes > 0) {
          slopes[behind + i] = before_unit<lanes, T>(eps, sum[i], slopes[behind + i]);
        } else {
          unrolled<width>([&](unsigned e) { slopes[behind + i].v[e] *= silu_slope<T>(sum[i].v[e]); });
        }
        if (t + i < end) {
          unrolled<width>([&](unsigned e) {
            const float slope = slopes[behind + i].v[e];
            unrolled<reach>([&](unsigned lag) { to_weight[lag].v[e] += slope * inputs[behind + i - lag].v[e]; });
            to_weight[reach].v[e] += slope;
          });
        }
        if (!dx.wanted() || t + i < begin + behind || t + i >= end + behind) continue;
        P gradient = {};
        unrolled<reach, width>(
            [&](unsigned lag, unsigned e) { gradient.v[e] += weights[lag].v[e] * slopes[i + lag].v[e]; });
        if (lanes == 0 || inside) gradient.put(dx, row + t + i - behind, channel);
      }
      unrolled<behind>([&](unsigned i) {
        inputs[i] = inputs[step_tokens + i];
        slopes[i] = slopes[step_tokens + i];
      });
    }
    tiles::wait<0>();
  }
  float* own = partials + blockIdx.x * std::size_t{in.channels} * (in.taps + 1);
#pragma unroll
  for (unsigned lag = 0; lag <= reach; ++lag) {
    if (lag >= in.taps && lag < reach) continue;
    __syncthreads();
    to_weight[lag].store(&sums[group][lane * width]);
    __syncthreads();
    const unsigned c = blockIdx.y * conv_lanes * width + threadIdx.x;
    if (threadIdx.x >= conv_lanes * width || c >= in.channels) continue;
    float sum = 0;
    unrolled<conv_groups>([&](unsigned other) { sum += sums[other][threadIdx.x]; });
    own[lag < reach ? c * in.taps + in.taps - 1 - lag : in.channels * in.taps + c] = sum;
  }
}

template <class T>
ConvInputs<T> conv_inputs(const Convolution& conv) {
  const Tensor& x = conv.x;
  const auto taps = unsigned(conv.weight.shape[2]);
  if (taps > max_taps) {
    throw Error(ExitCode::failure, "the GPU convolution has at most " + std::to_string(max_taps) + " taps, and " +
                                       std::to_string(taps) + " were asked for; use --device cpu");
  }
  return {rows_of<T>(x),        conv.weight.as<float>(), conv.bias.as<float>(), nullptr,
          unsigned(x.shape[0]), unsigned(x.shape[1]),    unsigned(x.shape[2]),  taps};
}

/// Calls body with the channels of a thread and a capacity of taps, as compile-time constants: four channels if there
/// are enough tokens, they can be read by fours, and registers suffice. `sums` and the bias are dense; `others` are
/// dense or have the rows of `in.x`.
template <class T, class Body>
void with_channels(const ConvInputs<T>& in, const Rows<float>& sums, std::initializer_list<Rows<T>> others,
                   const Body& body) {
  const bool fours = in.batch * in.length > max_narrow_rows && in.channels % 4 == 0 && in.taps <= few_taps &&
                     in_pieces<4>(in.x) && in_pieces<4>(sums) && reinterpret_cast<std::uintptr_t>(in.bias) % 16 == 0 &&
                     std::all_of(others.begin(), others.end(), in_pieces<4, T>);
  if (fours) return body(std::integral_constant<unsigned, 4>(), std::integral_constant<unsigned, few_taps>());
  with_capacity<few_taps, max_taps>(in.taps, [&](auto reach) { body(std::integral_constant<unsigned, 1>(), reach); });
}

/// Calls body with the lanes of a head, as a compile-time constant; 0 if heads are not divided.
template <unsigned width, class Body>
void with_lanes(const UnitHeads& heads, const Body& body) {
  if (heads.width == 0) return body(std::integral_constant<unsigned, 0>());
  if constexpr (width == 4) {
    if (heads.width == 32 || heads.width == 64 || heads.width == 128)
      return with_capacity<8u, 16u, 32u>(heads.width / 4, body);
  }
  throw Error(ExitCode::failure, "the GPU convolution does not divide heads of width " + std::to_string(heads.width));
}

template <class T, class Extra>
dim3 stretches(const ConvInputs<T>& in, unsigned width, const Extra& extra) {
  return {blocks_for(in.batch * blocks_for(in.length, conv_steps), conv_groups),
          blocks_for(in.channels, conv_lanes * width) + (extra.count > 0 ? 1 : 0), 1};
}

/// The gradients with few rows. `sums`: there are sums over rows, for the side stream; `sum_more` queues those that are
/// not the convolution's.
template <class T, class Extra, class Sums>
void launch_backward(CudaBackend& backend, const ConvInputs<T>& in, const float* before, const Tensor& dy,
                     const ConvolutionGrads& to, const Extra& extra, bool sums, const Sums& sum_more) {
  with_capacity<few_taps, max_taps>(in.taps, [&](auto reach) {
    if (sums) {
      const SideStream side(backend);
      sum_more();
      if (to.weight.wanted() || to.bias.wanted())
        with_rounds([&](auto rounds) {
          launch(narrow_weight_kernel<rounds, reach, T>, blocks_for(in.channels, narrow_columns), narrow_block / rounds,
                 0, backend.stream(), in, before, dy.as<T>(), sink_of(to.weight), sink_of(to.bias));
        });
    }
    if (to.x.wanted() || extra.count > 0)
      launch(conv_backward_kernel<reach, T, Extra>, stretches(in, 1, extra), threads, 0, backend.stream(), in, before,
             dy.as<T>(), sink_of<T>(to.x), extra);
  });
}

template <class T>
void launch_backward_long(const CudaBackend& backend, const ConvInputs<T>& in, const UnitHeads& heads, const Tensor& dy,
                          const SinkOf<T>& dx, const Grad& dweight, const Grad& dbias) {
  const unsigned weights = in.channels * in.taps, all = weights + in.channels;
  float* partials = backend.scratch(std::size_t{max_ranges} * all);
  const unsigned resident_blocks = 2 * multiprocessors();
  unsigned ranges = 1;
  with_channels(in, {}, {rows_of<T>(dy), dx.rows}, [&](auto width, auto reach) {
    const unsigned tiles = blocks_for(in.channels, conv_lanes * width);
    unsigned stretch = min_stretch;
    const auto blocks_of_stretches = [&] { return blocks_for(in.batch * blocks_for(in.length, stretch), conv_groups); };
    while (stretch < in.length && blocks_of_stretches() * tiles > resident_blocks) stretch *= 2;
    ranges = at_most(blocks_of_stretches(), at_most(resident_blocks / tiles + 1, max_ranges));
    with_lanes<width>(heads, [&](auto lanes) {
      constexpr int bytes = StretchSteps<width, T>::bytes;
      launch("causal_conv_backward", conv_backward_long_kernel<width, reach, lanes, T>, dim3(ranges, tiles), threads,
             bytes, backend.stream(), in, float(heads.eps), stretch, dy.as<T>(), partials, dx);
    });
  });
  ColumnSums sums;
  sums.add(weights, dweight);
  sums.add(in.channels, dbias, weights);
  add_partials(backend, "causal_conv_backward", partials, ranges, all, sums);
}

}  // namespace

void CudaBackend::rotary(std::span<const Tensor> x, const RotaryRates& rates, std::int64_t first_position, bool inverse,
                         std::span<const Grad> y) {
  const Shape& s = x.front().shape.rank() == 4 ? x.front().shape : y.front().tensor.shape;
  const std::int64_t rotations = s[0] * s[1] * ((s[3] + 1) / 2);
  if (rotations == 0) return;
  RotaryRates of_pairs = rates;
  if (rates.width == 0) of_pairs.width = s[3];
  with_stored_type(x.front(), [&]<class T>(T) {
    const RopePair<T> pair{{rope_tensor<T>(x.front(), y.front(), s[3]), rope_tensor<T>(x.back(), y.back(), s[3])},
                           unsigned(x.size())};
    const unsigned heads = std::max(pair.of[0].heads, pair.of[1].heads);
    const bool are_few = rotations < many_rotations;
    const dim3 grid(blocks_for(rotations, rope_threads), are_few ? pair.count : 1,
                    are_few ? at_most(heads, max_apart) : 1);
    launch(*this, "rotary", rotary_kernel<T>, grid, rope_threads, pair, unsigned(s[0]), unsigned(s[1]), unsigned(s[3]),
           of_pairs, std::log2(rates.base), first_position, inverse);
  });
}

void CudaBackend::causal_conv(const Convolution& conv, const UnitHeads& heads, const Tensor& y) {
  const Tensor &x = conv.x, &history = conv.history;
  if (x.elements() == 0) return;
  const bool moves = history.defined() && x.shape[1] == 1 && x.rows() <= max_narrow_rows;
  with_stored_type(x, [&]<class T>(T) {
    ConvInputs<T> in = conv_inputs<T>(conv);
    const Rows<T> past = rows_of<T>(history);
    in.history = past.data;
    with_channels(in, rows_of(conv.before), {rows_of<T>(y), past}, [&](auto width, auto reach) {
      with_lanes<width>(heads, [&](auto lanes) {
        launch(conv_kernel<width, reach, lanes, T, NoRow>, stretches(in, width, NoRow()), threads, 0, stream(), in,
               float(heads.eps), conv.before.as<float>(), y.as<T>(), moves ? past.data : nullptr, NoRow());
      });
    });
  });
  launched("causal_conv", moves);
  if (!history.defined() || conv.weight.shape[2] < 2 || moves) return;
  keep_history(*this, conv_inputs<float>(conv), history.as<float>());
}

// Heads are divided by their length where a thread takes four channels in both passes: tensors of the tape can be read
// by fours.
Plan CudaBackend::plan(const ConvolutionCall& call) const {
  const Tensor& x = call.x;
  const std::int64_t width = call.head_width;
  const bool is_whole = x.dtype == DType::bf16 ? in_pieces<4>(rows_of<Bf16>(x)) : in_pieces<4>(rows_of(x));
  const bool is_long = x.rows() > max_narrow_rows;
  return {.kept = is_long ? 0 : x.elements(),
          .unit_heads =
              is_whole && is_long && call.weight.shape[2] <= few_taps && (width == 32 || width == 64 || width == 128)};
}

void CudaBackend::causal_conv_backward(const Convolution& conv, const UnitHeads& heads, const Tensor& dy,
                                       const ConvolutionGrads& out) {
  const Tensor& x = conv.x;
  if (x.elements() == 0) return;
  const bool wants_weights = out.weight.wanted() || out.bias.wanted(), is_long = x.rows() > max_narrow_rows;
  if (is_long && (out.weight.accumulate || out.bias.accumulate)) wait_for_side_stream();  // it may be writing there
  with_stored_type(x, [&]<class T>(T) {
    const ConvInputs<T> in = conv_inputs<T>(conv);
    if (is_long) return launch_backward_long(*this, in, heads, dy, sink_of<T>(out.x), out.weight, out.bias);
    launch_backward(*this, in, conv.before.as<float>(), dy, out, NoRow(), wants_weights, [] {});
  });
  launched("causal_conv_backward");
}

// With many tokens convolution and step sizes are a launch each, which fills the GPU. In the backward pass the sums
// stay separate launches: a joint one would start sooner and delay the product behind it.
void CudaBackend::conv_with_steps(const Convolution& conv, const Tensor& y, const StepSizes& steps,
                                  const Tensor& sizes) {
  if (convolve_few_rows(*this, {conv, y, steps, sizes})) return;
  if (conv.x.rows() > max_narrow_rows || conv.x.rows() == 0 || conv.history.defined()) {
    causal_conv(conv, {}, y);
    return softplus_bias(steps.x, steps.bias, steps.range, sizes);
  }
  with_stored_type(conv.x, [&]<class T>(T) {
    const ConvInputs<T> in = conv_inputs<T>(conv);
    const ExtraRow<PutSizes<T>> extra{{StepSize<T>(steps), rows_of(sizes)}, unsigned(sizes.elements())};
    with_capacity<few_taps, max_taps>(in.taps, [&](auto reach) {
      launch(*this, "conv_with_steps", conv_kernel<1, reach, 0, T, ExtraRow<PutSizes<T>>>, stretches(in, 1, extra),
             threads, in, 0.0f, conv.before.as<float>(), y.as<T>(), nullptr, extra);
    });
  });
}

void CudaBackend::conv_with_steps_backward(const Convolution& conv, const Tensor& dy, const ConvolutionGrads& dconv,
                                           const StepSizes& steps, const Tensor& dsizes, const StepSizesGrads& dsteps) {
  if (conv.x.rows() > max_narrow_rows || conv.x.rows() == 0) {
    softplus_bias_backward(steps.x, steps.bias, steps.range, dsizes, dsteps.x, dsteps.bias);
    return causal_conv_backward(conv, {}, dy, dconv);
  }
  with_stored_type(conv.x, [&]<class T>(T) {
    const ConvInputs<T> in = conv_inputs<T>(conv);
    const StepSlope<T> slope(steps, dsizes);
    const auto count = unsigned(dsteps.x.wanted() ? dsizes.elements() : 0);
    const ExtraRow<PutSlopes<T>> extra{{slope, sink_of<T>(dsteps.x)}, count};
    launch_backward(*this, in, conv.before.as<float>(), dy, dconv, extra, true, [&] {
      column_sums(*this, "conv_with_steps_backward", conv.x.rows(), slope.x.columns, dsteps.bias, slope);
    });
  });
  launched("conv_with_steps_backward");
}

}  // namespace afterglow
