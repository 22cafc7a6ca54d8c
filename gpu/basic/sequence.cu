// Rotary position code and the causal depthwise convolution. Bound by memory.
#include <cmath>
#include <type_traits>

#include "gpu/cuda_backend.h"
#include "gpu/device/columns.cuh"
#include "gpu/device/device.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned turn_threads = 128;

// A thread turns one pair of every head at one position, of queries or keys or, where there are many, of both. Angles
// are found in float64: positions reach thousands, and a float32 angle would lose the digits that the sine needs. What
// is left of one after whole turns may be rounded.
struct Turned {
  const float* x;
  Sink y;
  unsigned heads;
  bool twos;  // a pair at a time

  __device__ void turn(std::size_t place, bool whole, float sine, float cosine) const {
    if (twos) {
      const float2 pair = *reinterpret_cast<const float2*>(x + place);
      float2& to = *reinterpret_cast<float2*>(y.rows.data + place);
      const float2 before = y.accumulate ? to : make_float2(0, 0);
      to = make_float2(before.x + (pair.x * cosine - pair.y * sine), before.y + (pair.x * sine + pair.y * cosine));
      return;
    }
    const float a = x[place], b = whole ? x[place + 1] : 0.0f;
    y.put(static_cast<unsigned>(place), a * cosine - b * sine);
    if (whole) y.put(static_cast<unsigned>(place + 1), a * sine + b * cosine);
  }
};
struct TurnedPair {
  Turned of[2];
  unsigned count;
};
constexpr std::int64_t many_turns = 1 << 17;

__global__ void __launch_bounds__(turn_threads)
    rotary_kernel(TurnedPair in, unsigned batch, unsigned length, unsigned width, double log2_base,
                  long long first_position, bool inverse) {
  await_previous();
  const unsigned pairs = (width + 1) / 2;
  const unsigned i = blockIdx.x * turn_threads + threadIdx.x;
  if (i >= batch * length * pairs) return;
  const unsigned pair = i % pairs, position = i / pairs;
  float sine = 0, cosine = 1;
  const bool whole = 2 * pair + 1 < width;
  if (whole) {
    const double turns = static_cast<double>(first_position + position % length) * 0.15915494309189535 *
                         exp2(-2.0 * static_cast<double>(pair) / static_cast<double>(width) * log2_base);
    sincospif(static_cast<float>(2.0 * (turns - rint(turns))), &sine, &cosine);
    if (inverse) sine = -sine;
  }
  for (unsigned which = blockIdx.y; which < in.count; which += gridDim.y) {
    const Turned& turned = in.of[which];
    if (!turned.y.wanted()) continue;
    const std::size_t begin = std::size_t{position} * turned.heads * width + 2 * pair;
#pragma unroll 4
    for (unsigned head = 0; head < turned.heads; ++head)
      turned.turn(begin + std::size_t{head} * width, whole, sine, cosine);
  }
}

constexpr unsigned widest = 8;  // taps; `reach` below: as many as a kernel has room for
constexpr unsigned few_taps = 4;

struct ConvInputs {
  Rows<float> x;  // [B T, c]
  const float *weight, *bias, *history;
  unsigned batch, length, channels, taps;

  /// The input of token t, which may lie in the history; what is there is zero without one.
  __device__ float at(unsigned b, int t, unsigned channel) const {
    if (t >= 0) return x.at(std::size_t{b} * length + static_cast<unsigned>(t), channel);
    if (history == nullptr) return 0.0f;
    return history[(std::size_t{b} * (taps - 1) + taps - 1 + t) * channels + channel];
  }
};

// The last taps - 1 inputs become the history; entries move towards the beginning, so this order overwrites nothing
// that is still to be read.
__global__ void __launch_bounds__(threads) conv_history_kernel(ConvInputs in, float* history) {
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

constexpr unsigned conv_lanes = 32, conv_groups = threads / conv_lanes, conv_steps = 8, max_pieces = 128;

/// The piece of a thread: `conv_steps` tokens of one channel.
struct Piece {
  unsigned b, begin, channel;
  bool inside;
  __device__ explicit Piece(const ConvInputs& in) {
    const unsigned pieces = (in.length + conv_steps - 1) / conv_steps;
    const unsigned piece = blockIdx.x * conv_groups + threadIdx.x / conv_lanes;
    b = piece / pieces;
    begin = piece % pieces * conv_steps;
    channel = blockIdx.y * conv_lanes + threadIdx.x % conv_lanes;
    inside = b < in.batch && channel < in.channels;
  }
};

/// The weight of the input `back` tokens before.
__device__ float weight_of(const ConvInputs& in, unsigned channel, unsigned back) {
  return back < in.taps ? in.weight[channel * in.taps + in.taps - 1 - back] : 0.0f;
}

// Everything that the tokens of a piece meet is loaded first, so that no load waits for another.
template <unsigned reach>
__global__ void __launch_bounds__(threads) conv_kernel(ConvInputs in, float* before, float* y) {
  await_previous();
  const Piece piece(in);
  if (!piece.inside) return;
  float inputs[conv_steps + reach - 1], weights[reach];
#pragma unroll
  for (unsigned i = 0; i < conv_steps + reach - 1; ++i) {
    const int t = static_cast<int>(piece.begin + i) - static_cast<int>(reach - 1);
    const bool used = i + in.taps >= reach && t < static_cast<int>(in.length);
    inputs[i] = used ? in.at(piece.b, t, piece.channel) : 0.0f;
  }
#pragma unroll
  for (unsigned back = 0; back < reach; ++back) weights[back] = weight_of(in, piece.channel, back);
  const float bias = in.bias != nullptr ? in.bias[piece.channel] : 0.0f;
#pragma unroll
  for (unsigned i = 0; i < conv_steps; ++i) {
    if (piece.begin + i >= in.length) break;
    float sum = bias;
#pragma unroll
    for (unsigned back = reach; back-- > 0;) sum += weights[back] * inputs[i + reach - 1 - back];
    const std::size_t place = (std::size_t{piece.b} * in.length + piece.begin + i) * in.channels + piece.channel;
    before[place] = sum;
    y[place] = silu(sum);
  }
}

// A thread walks `conv_steps` tokens of one channel.
template <unsigned reach>
__global__ void __launch_bounds__(threads)
    conv_backward_kernel(ConvInputs in, const float* before, const float* dy, Sink dx) {
  await_previous();
  const Piece piece(in);
  if (!piece.inside) return;
  const auto& [b, begin, channel, inside] = piece;
  // Everything that the tokens of this piece meet is loaded first, so that no load waits for another.
  float slopes[conv_steps + reach - 1], sums[conv_steps + reach - 1];
#pragma unroll
  for (unsigned i = 0; i < conv_steps + reach - 1; ++i) {
    const unsigned t = begin + i;
    const std::size_t place = (std::size_t{b} * in.length + t) * in.channels + channel;
    const bool behind = i < conv_steps + in.taps - 1 && t < in.length;
    slopes[i] = behind ? dy[place] : 0.0f;
    sums[i] = behind ? before[place] : 0.0f;
  }
#pragma unroll
  for (unsigned i = 0; i < conv_steps + reach - 1; ++i) slopes[i] *= silu_slope(sums[i]);
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

/// Adds what one piece of one channel contributes to the gradients of its weights, [taps back], and of its bias.
template <unsigned reach>
__device__ void add_piece(const ConvInputs& in, const float* before, const float* dy, unsigned b, unsigned begin,
                          unsigned channel, float (&to_weight)[reach + 1]) {
  float slopes[conv_steps], befores[conv_steps], inputs[conv_steps + reach - 1];
#pragma unroll
  for (unsigned i = 0; i < conv_steps; ++i) {
    const std::size_t place = (std::size_t{b} * in.length + begin + i) * in.channels + channel;
    slopes[i] = begin + i < in.length ? dy[place] : 0.0f;
    befores[i] = begin + i < in.length ? before[place] : 0.0f;
  }
#pragma unroll
  for (unsigned i = 0; i < conv_steps + reach - 1; ++i) {
    const unsigned t = begin + i;
    const bool ahead = i + in.taps >= reach && t + 1 >= reach && t + 1 - reach < in.length;
    inputs[i] = ahead ? in.x.at(std::size_t{b} * in.length + t + 1 - reach, channel) : 0.0f;
  }
#pragma unroll
  for (unsigned i = 0; i < conv_steps; ++i) {
    slopes[i] *= silu_slope(befores[i]);
#pragma unroll
    for (unsigned back = 0; back < reach; ++back) to_weight[back] += slopes[i] * inputs[i + reach - 1 - back];
    to_weight[reach] += slopes[i];
  }
}

// The weights of few rows: a block takes eight channels and all pieces.
template <unsigned reach>
__global__ void __launch_bounds__(narrow_block)
    narrow_weight_kernel(ConvInputs in, const float* before, const float* dy, Sink dweight, Sink dbias) {
  await_previous();
  const unsigned channel = blockIdx.x * narrow_columns + threadIdx.x % narrow_columns;
  const unsigned pieces = (in.length + conv_steps - 1) / conv_steps;
  float to_weight[reach + 1] = {};  // the last one is the bias
  for (unsigned piece = threadIdx.x / narrow_columns; piece < in.batch * pieces;
       piece += narrow_block / narrow_columns) {
    if (channel >= in.channels) break;
    add_piece<reach>(in, before, dy, piece / pieces, piece % pieces * conv_steps, channel, to_weight);
  }
#pragma unroll
  for (unsigned back = 0; back <= reach; ++back) {
    if (back >= in.taps && back < reach) continue;
    __syncthreads();
    finish_narrow_sums(to_weight[back], in.channels, [&](unsigned c, float sum) {
      if (back == reach) {
        if (dbias.wanted()) dbias.put(c, sum);
      } else if (dweight.wanted()) {
        dweight.put(c * in.taps + in.taps - 1 - back, sum);
      }
    });
  }
}

// The same walk for the weights: their sums leave per block and are finished by the last one.
template <unsigned reach>
__global__ void __launch_bounds__(threads)
    conv_weight_kernel(ConvInputs in, const float* before, const float* dy, float* partials, unsigned* tickets,
                       Sink dweight, Sink dbias) {
  await_previous();
  __shared__ float sums[reach + 1][threads];
  const unsigned lane = threadIdx.x % conv_lanes, group = threadIdx.x / conv_lanes;
  const unsigned channel = blockIdx.y * conv_lanes + lane;
  const unsigned pieces = (in.length + conv_steps - 1) / conv_steps;
  float to_weight[reach + 1] = {};  // the last one is the bias
  for (unsigned piece = blockIdx.x * conv_groups + group; piece < in.batch * pieces; piece += gridDim.x * conv_groups) {
    if (channel >= in.channels) break;
    add_piece<reach>(in, before, dy, piece / pieces, piece % pieces * conv_steps, channel, to_weight);
  }
  // Partial sums of a tile of channels lie together: [tap][lane], the bias behind the last tap.
  const unsigned width = (in.taps + 1) * conv_lanes;
  float* tile = partials + std::size_t{blockIdx.y} * gridDim.x * width;
#pragma unroll
  for (unsigned k = 0; k <= reach; ++k) {
    if (k < in.taps || k == reach) sums[min(k, in.taps)][threadIdx.x] = to_weight[k];
  }
  __syncthreads();
  for (unsigned place = threadIdx.x; place < width; place += threads) {
    float sum = 0;
#pragma unroll
    for (unsigned other = 0; other < conv_groups; ++other) {
      sum += sums[place / conv_lanes][other * conv_lanes + place % conv_lanes];
    }
    tile[blockIdx.x * width + place] = sum;
  }
  if (!is_last_block(&tickets[blockIdx.y], gridDim.x)) return;
  sum_partials(tile, gridDim.x, width, 0, width, [&](unsigned place, float sum) {
    const unsigned k = place / conv_lanes, c = blockIdx.y * conv_lanes + place % conv_lanes;
    if (c >= in.channels) return;
    if (k < in.taps && dweight.wanted()) dweight.put(c * in.taps + in.taps - 1 - k, sum);
    if (k == in.taps && dbias.wanted()) dbias.put(c, sum);
  });
}

ConvInputs conv_inputs(const Tensor& x, const Tensor& weight) {
  const auto taps = static_cast<unsigned>(weight.shape[2]);
  if (taps > widest) {
    throw Error(ExitCode::failure, "the GPU convolution has at most " + std::to_string(widest) + " taps, and " +
                                       std::to_string(taps) + " were asked for; use --device cpu");
  }
  return {rows_of(x),
          weight.as<float>(),
          nullptr,
          nullptr,
          static_cast<unsigned>(x.shape[0]),
          static_cast<unsigned>(x.shape[1]),
          static_cast<unsigned>(x.shape[2]),
          taps};
}

/// Calls body with room for so many taps, as a compile-time constant.
template <class Body>
void with_reach(const ConvInputs& in, const Body& body) {
  if (in.taps <= few_taps) return body(std::integral_constant<unsigned, few_taps>());
  body(std::integral_constant<unsigned, widest>());
}

}  // namespace

void CudaBackend::rotary(std::span<const Tensor> x, double base, std::int64_t first_position, bool inverse,
                         std::span<const Grad> y) {
  const auto turned = [&](std::size_t i) {
    const auto* from = x[i].as<float>();
    const Sink to = sink_of(y[i]);
    const auto aligned = [](const float* data) { return reinterpret_cast<std::uintptr_t>(data) % sizeof(float2) == 0; };
    const bool twos = x[i].shape[3] % 2 == 0 && to.rows.dense && aligned(from) && aligned(to.rows.data);
    return Turned{from, to, static_cast<unsigned>(x[i].shape[2]), twos};
  };
  const Shape& s = x.front().shape;
  const std::int64_t turns = s[0] * s[1] * ((s[3] + 1) / 2);
  if (turns == 0) return;
  const TurnedPair pair{{turned(0), turned(x.size() - 1)}, static_cast<unsigned>(x.size())};
  const dim3 grid(blocks_for(turns, turn_threads), turns < many_turns ? pair.count : 1);
  launch(rotary_kernel, grid, turn_threads, 0, stream(), pair, static_cast<unsigned>(s[0]), static_cast<unsigned>(s[1]),
         static_cast<unsigned>(s[3]), std::log2(base), first_position, inverse);
  launched("rotary");
}

void CudaBackend::causal_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& history,
                              const Tensor& before, const Tensor& y) {
  ConvInputs in = conv_inputs(x, weight);
  if (x.elements() == 0) return;
  in.bias = bias.as<float>();
  in.history = history.as<float>();
  const dim3 grid(blocks_for(in.batch * blocks_for(in.length, conv_steps), conv_groups),
                  blocks_for(in.channels, conv_lanes));
  with_reach(in, [&](auto reach) {
    launch(conv_kernel<reach>, grid, threads, 0, stream(), in, before.as<float>(), y.as<float>());
  });
  launched("causal_conv");
  if (!history.defined() || in.taps < 2) return;
  launch(conv_history_kernel, blocks_for(in.batch * in.channels, threads), threads, 0, stream(), in,
         history.as<float>());
  launched("causal_conv history");
}

void CudaBackend::causal_conv_backward(const Tensor& x, const Tensor& weight, const Tensor& before, const Tensor& dy,
                                       const Grad& dx, const Grad& dweight, const Grad& dbias) {
  const ConvInputs in = conv_inputs(x, weight);
  if (x.elements() == 0) return;
  const unsigned blocks = blocks_for(in.batch * blocks_for(in.length, conv_steps), conv_groups);
  const unsigned tiles = blocks_for(in.channels, conv_lanes);
  with_reach(in, [&](auto reach) {
    if (dweight.wanted() || dbias.wanted()) {
      const SideStream beside(*this);
      const dim3 grid(at_most(blocks, max_pieces), tiles);
      if (x.rows() <= max_narrow_rows) {
        launch(narrow_weight_kernel<reach>, blocks_for(in.channels, narrow_columns), narrow_block, 0, stream(), in,
               before.as<float>(), dy.as<float>(), sink_of(dweight), sink_of(dbias));
      } else {
        launch(conv_weight_kernel<reach>, grid, threads, 0, stream(), in, before.as<float>(), dy.as<float>(),
               scratch(std::size_t{grid.x} * grid.y * (in.taps + 1) * conv_lanes), tickets_, sink_of(dweight),
               sink_of(dbias));
      }
    }
    if (dx.wanted()) {
      launch(conv_backward_kernel<reach>, dim3(blocks, tiles), threads, 0, stream(), in, before.as<float>(),
             dy.as<float>(), sink_of(dx));
    }
  });
  launched("causal_conv_backward");
}

}  // namespace afterglow
