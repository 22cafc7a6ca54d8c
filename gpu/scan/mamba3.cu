// What Mamba-3 computes around its scan: trapezoidal steps, angles, turned keys and queries, pair squares (the gate of
// heads: gpu/basic/gated_heads.cu). Bound by memory and by the number of launches; sums over rows are finished by the
// last block. T: as what a projection gave, and keys and queries, are stored; steps and angles are float32.
#include "gpu/cuda_backend.h"
#include "gpu/device/columns.cuh"
#include "gpu/device/device.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr unsigned warps = threads / 32;
constexpr double pi = 3.14159265358979323846;

/// Runs body(i) for i < count, a thread each.
template <class Body>
__global__ void __launch_bounds__(threads) each_kernel(unsigned count, Body body) {
  await_previous();
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i < count) body(i);
}
template <class Body>
void each(cudaStream_t stream, std::int64_t count, const Body& body) {
  if (count == 0) return;
  launch(each_kernel<Body>, blocks_for(count, threads), threads, 0, stream, static_cast<unsigned>(count), body);
}
/// Runs body(i, lane) for i < count, a warp each.
template <class Body>
__global__ void __launch_bounds__(threads) warps_kernel(unsigned count, Body body) {
  await_previous();
  const unsigned i = blockIdx.x * warps + threadIdx.x / 32;
  if (i < count) body(i, threadIdx.x % 32);
}
template <class Body>
void each_warp(cudaStream_t stream, std::int64_t count, const Body& body) {
  if (count == 0) return;
  launch(warps_kernel<Body>, blocks_for(count, warps), threads, 0, stream, static_cast<unsigned>(count), body);
}

/// Time step, rate and share of one token and head, with the slopes towards what the projection gave.
struct Step {
  float dt, rate, share, dt_slope, rate_slope;
};
__device__ Step step_of(float raw, float A, float trap, float min_rate, float min_step) {
  const float natural = softplus(raw), below = 1.0f / (1.0f - A), natural_rate = A >= 0.0f ? 1.0f + A : below;
  return {fmaxf(natural, min_step), fmaxf(natural_rate, min_rate), sigmoid(trap),
          natural < min_step ? 0.0f : sigmoid(raw),
          natural_rate < min_rate ? 0.0f
          : A >= 0.0f             ? 1.0f
                                  : below * below};
}

template <class T>
struct StepInputs {
  Rows<T> x;
  const float* bias;
  unsigned heads;
  float min_rate, min_step;
  __device__ Step at(std::size_t row, unsigned h) const {
    const auto number = [&](unsigned kind) { return static_cast<float>(x.at(row, kind * heads + h)); };
    return step_of(number(0) + bias[h], number(1), number(2), min_rate, min_step);
  }
};

template <class T>
StepInputs<T> step_inputs(const Tensor& x, const Tensor& bias, const StepFloors& floors) {
  return {rows_of<T>(x), bias.as<float>(), static_cast<unsigned>(bias.columns()), static_cast<float>(floors.rate),
          static_cast<float>(floors.step)};
}

__device__ double turn_of(float raw) { return pi * static_cast<double>(tanhf(raw)); }

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

struct AngleSizes {
  unsigned length, heads, pairs;
};
constexpr unsigned long_angles = 256;  // tokens, from which on a whole block sums one angle

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

/// One pair turned back by its angle.
__device__ float2 turned_back(float2 pair, float angle) {
  float sine, cosine;
  sincosf(angle, &sine, &cosine);
  return {pair.x * cosine + pair.y * sine, pair.y * cosine - pair.x * sine};
}

/// Keys or queries of all heads; `pairs` of them turn. A last state without a partner counts as a pair with 0.
template <class T>
struct TurnedHeads {
  Rows<T> x;
  const float *weight, *theta;
  const T *y, *dy;
  unsigned heads, states, pairs;
  __device__ float x_at(std::size_t row, unsigned n) const { return static_cast<float>(x.at(row, n)); }
  __device__ float2 load(const T* from, std::size_t row, unsigned h, unsigned pair) const {
    const std::size_t at = (row * heads + h) * states + 2 * pair;
    return {static_cast<float>(from[at]), 2 * pair + 1 < states ? static_cast<float>(from[at + 1]) : 0.0f};
  }
  __device__ std::size_t angle_at(std::size_t row, unsigned h, unsigned pair) const {
    return (row * heads + h) * pairs + pair;
  }
  /// d loss / d (normed vector + bias) of a head.
  __device__ float2 straight(std::size_t row, unsigned h, unsigned pair) const {
    const float2 up = load(dy, row, h, pair);
    return pair < pairs ? turned_back(up, theta[angle_at(row, h, pair)]) : up;
  }
};

template <class T>
TurnedHeads<T> turned_inputs(const Tensor& x, const Tensor& weight, const Tensor& theta, const Tensor& y,
                             const Tensor& dy) {
  return {rows_of<T>(x),
          weight.as<float>(),
          theta.as<float>(),
          rows_of<T>(y).data,
          dy.defined() ? rows_of<T>(dy).data : nullptr,
          static_cast<unsigned>(y.shape[2]),
          static_cast<unsigned>(x.columns()),
          theta.defined() ? static_cast<unsigned>(theta.columns()) : 0u};
}

template <class T>
void take_steps(cudaStream_t stream, const StepInputs<T>& in, std::int64_t rows, const Rows<float>& out) {
  each(stream, rows * in.heads, [=] __device__(unsigned i) {
    const unsigned row = i / in.heads, h = i % in.heads;
    const Step step = in.at(row, h);
    out.at(row, h) = step.dt;
    out.at(row, in.heads + h) = -step.rate * step.dt;
    out.at(row, 2 * in.heads + h) = step.share * step.dt;
    out.at(row, 3 * in.heads + h) = (1.0f - step.share) * step.dt;
  });
}

template <class T>
void take_steps_back(CudaBackend& backend, const StepInputs<T>& in, std::int64_t rows, const Rows<float>& up,
                     const SinkOf<T>& to, const Grad& dbias) {
  const auto to_dt = [=] __device__(unsigned row, unsigned h) {
    const Step step = in.at(row, h);
    return step.dt_slope *
           (up.at(row, h) - step.rate * up.at(row, in.heads + h) + step.share * up.at(row, 2 * in.heads + h) +
            (1.0f - step.share) * up.at(row, 3 * in.heads + h));
  };
  if (dbias.wanted()) {
    const SideStream beside(backend);
    column_sums(backend.stream(), rows, in.heads, backend.scratch(std::size_t{max_ranges} * in.heads),
                backend.tickets(), dbias, to_dt);
  }
  if (!to.wanted()) return;
  each(backend.stream(), rows * in.heads, [=] __device__(unsigned i) {
    const unsigned row = i / in.heads, h = i % in.heads;
    const Step step = in.at(row, h);
    const float to_now = up.at(row, 2 * in.heads + h), to_lag = up.at(row, 3 * in.heads + h);
    to.put(row, h, to_dt(row, h));
    to.put(row, in.heads + h, -step.dt * up.at(row, in.heads + h) * step.rate_slope);
    to.put(row, 2 * in.heads + h, (to_now - to_lag) * step.dt * step.share * (1.0f - step.share));
  });
}

AngleSizes angle_sizes(const Tensor& dt, const Tensor& turn) {
  return {static_cast<unsigned>(dt.shape[1]), static_cast<unsigned>(dt.columns()),
          static_cast<unsigned>(turn.columns())};
}

// One pair of one head along the sequence, a token a thread.
template <unsigned together, class T>
__global__ void __launch_bounds__(threads)
    angles_kernel(AngleSizes s, unsigned count, Rows<float> steps, Rows<T> raw, float* kept, float* out) {
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
    if (t < s.length) part = static_cast<double>(steps.at(row, h)) * turn_of(static_cast<float>(raw.at(row, pair)));
    const double angle = sum + sums_of_group<false, together>(part, total);
    last = static_cast<float>(angle - 2.0 * pi * rint(angle / (2.0 * pi)));
    if (t < s.length) out[(row * s.heads + h) * s.pairs + pair] = last;
    sum += total;
  }
  if (kept != nullptr && own == at_once - 1) kept[i] = last;
}

// What an angle receives from its token on.
template <unsigned together>
__global__ void __launch_bounds__(threads)
    angles_backward_kernel(AngleSizes s, unsigned count, const float* up, float* later) {
  await_previous();
  constexpr unsigned at_once = 32 * together;
  const unsigned i = blockIdx.x * (threads / at_once) + threadIdx.x / at_once, own = threadIdx.x % at_once;
  if (i >= count) return;
  const unsigned pair = i % s.pairs, h = i / s.pairs % s.heads, b = i / s.pairs / s.heads;
  double sum = 0;
  for (unsigned begin = (s.length - 1) / at_once * at_once;; begin -= at_once) {
    const unsigned t = begin + own;
    const std::size_t at = ((std::size_t{b} * s.length + t) * s.heads + h) * s.pairs + pair;
    double total;
    const double from_here =
        sum + sums_of_group<true, together>(t < s.length ? static_cast<double>(up[at]) : 0.0, total);
    if (t < s.length) later[at] = static_cast<float>(from_here);
    sum += total;
    if (begin == 0) break;
  }
}

template <class T>
void share_angles(cudaStream_t stream, const AngleSizes& s, std::int64_t rows, const Rows<float>& steps,
                  const Rows<T>& raw, const float* later, const Sink& to_dt, const SinkOf<T>& to_turn) {
  each(stream, rows * (s.heads + s.pairs), [=] __device__(unsigned i) {
    const unsigned row = i / (s.heads + s.pairs), number = i % (s.heads + s.pairs);
    const float* from = later + std::size_t{row} * s.heads * s.pairs;
    double sum = 0;
    if (number < s.heads) {
      for (unsigned pair = 0; pair < s.pairs; ++pair) {
        sum += static_cast<double>(from[number * s.pairs + pair]) * turn_of(static_cast<float>(raw.at(row, pair)));
      }
      if (to_dt.wanted()) to_dt.put(row, number, static_cast<float>(sum));
      return;
    }
    const unsigned pair = number - s.heads;
    for (unsigned h = 0; h < s.heads; ++h) {
      sum += static_cast<double>(from[h * s.pairs + pair]) * static_cast<double>(steps.at(row, h));
    }
    const double y = static_cast<double>(tanhf(static_cast<float>(raw.at(row, pair))));
    if (to_turn.wanted()) to_turn.put(row, pair, static_cast<float>(sum * pi * (1.0 - y * y)));
  });
}

template <class T>
void turn_heads(cudaStream_t stream, const TurnedHeads<T>& in, std::int64_t rows, const float* offset, float least,
                T* out, float* scales) {
  each_warp(stream, rows, [=] __device__(unsigned row, unsigned lane) {
    float sum = 0;
    for (unsigned n = lane; n < in.states; n += 32) sum += in.x_at(row, n) * in.x_at(row, n);
    const float scale = 1.0f / sqrtf(warp_sum(sum) / static_cast<float>(in.states) + least);
    if (lane == 0) scales[row] = scale;
    const unsigned pairs = (in.states + 1) / 2;
    for (unsigned i = lane; i < in.heads * pairs; i += 32) {
      const unsigned h = i / pairs, pair = i % pairs, n = 2 * pair;
      const std::size_t at = (std::size_t{row} * in.heads + h) * in.states + n;
      const bool whole = n + 1 < in.states;
      const float a = in.x_at(row, n) * scale * in.weight[n] + offset[h * in.states + n];
      const float b = whole ? in.x_at(row, n + 1) * scale * in.weight[n + 1] + offset[h * in.states + n + 1] : 0.0f;
      float sine = 0, cosine = 1;
      if (pair < in.pairs) sincosf(in.theta[in.angle_at(row, h, pair)], &sine, &cosine);
      out[at] = static_cast<T>(a * cosine - b * sine);
      if (whole) out[at + 1] = static_cast<T>(a * sine + b * cosine);
    }
  });
}

// A warp takes a row: the heads' gradients, turned back, are added; then the norm's gradient. The weights' sums over
// rows are launches of their own.
template <class T>
void turn_heads_back(CudaBackend& backend, const TurnedHeads<T>& in, std::int64_t rows, const float* scales,
                     float* of_heads, const SinkOf<T>& to_x, const Sink& to_theta, const Grad& dweight,
                     const Grad& dbias) {
  each_warp(backend.stream(), rows, [=] __device__(unsigned row, unsigned lane) {
    float projection = 0;
    float* mine = of_heads + std::size_t{row} * in.states;
    for (unsigned pair = lane; 2 * pair < in.states; pair += 32) {
      float2 sum{0, 0};
      for (unsigned h = 0; h < in.heads; ++h) {
        const float2 part = in.straight(row, h, pair);
        sum.x += part.x;
        sum.y += part.y;
        if (pair >= in.pairs || !to_theta.wanted()) continue;
        const float2 up = in.load(in.dy, row, h, pair), out = in.load(in.y, row, h, pair);
        to_theta.put(static_cast<unsigned>(in.angle_at(row, h, pair)), up.y * out.x - up.x * out.y);
      }
      const unsigned n = 2 * pair;
      mine[n] = sum.x;
      projection += sum.x * in.weight[n] * in.x_at(row, n);
      if (n + 1 == in.states) continue;
      mine[n + 1] = sum.y;
      projection += sum.y * in.weight[n + 1] * in.x_at(row, n + 1);
    }
    const float scale = scales[row];
    const float pull = warp_sum(projection) * scale * scale * scale / static_cast<float>(in.states);
    __syncwarp();
    for (unsigned n = lane; to_x.wanted() && n < in.states; n += 32) {
      to_x.put(row, n, mine[n] * in.weight[n] * scale - in.x_at(row, n) * pull);
    }
  });
  backend.launched("rotate_heads_backward");
  const SideStream beside(backend);
  float* partials = backend.scratch(std::size_t{max_ranges} * in.heads * in.states);
  if (dweight.wanted()) {
    column_sums(backend.stream(), rows, in.states, partials, backend.tickets(), dweight,
                [=] __device__(unsigned row, unsigned n) {
                  return of_heads[std::size_t{row} * in.states + n] * in.x_at(row, n) * scales[row];
                });
  }
  if (dbias.wanted()) {
    column_sums(backend.stream(), rows, in.heads * in.states, partials, backend.tickets(), dbias,
                [=] __device__(unsigned row, unsigned column) {
                  const unsigned n = column % in.states;
                  const float2 pair = in.straight(row, column / in.states, n / 2);
                  return n % 2 == 0 ? pair.x : pair.y;
                });
  }
}

}  // namespace

void CudaBackend::trapezoid_steps(const Tensor& x, const Tensor& bias, const StepFloors& floors, const Tensor& y) {
  with_stored_type(x, [&](auto stored) {
    take_steps(stream(), step_inputs<decltype(stored)>(x, bias, floors), x.rows(), rows_of(y));
  });
  launched("trapezoid_steps");
}

void CudaBackend::trapezoid_steps_backward(const Tensor& x, const Tensor& bias, const StepFloors& floors,
                                           const Tensor& dy, const Grad& dx, const Grad& dbias) {
  with_stored_type(x, [&](auto stored) {
    using T = decltype(stored);
    take_steps_back(*this, step_inputs<T>(x, bias, floors), x.rows(), rows_of(dy), sink_of<T>(dx), dbias);
  });
  launched("trapezoid_steps_backward");
}

void CudaBackend::rotary_angles(const Tensor& dt, const Tensor& turn, const Tensor& carry, const Tensor& theta) {
  const AngleSizes s = angle_sizes(dt, turn);
  const auto count = static_cast<unsigned>(dt.shape[0]) * s.heads * s.pairs;
  if (count == 0 || s.length == 0) return;
  with_stored_type(turn, [&](auto stored) {
    using T = decltype(stored);
    with_warps_together(s, [&](auto together) {
      launch(angles_kernel<together, T>, blocks_for(count, warps / together), threads, 0, stream(), s, count,
             rows_of(dt), rows_of<T>(turn), carry.as<float>(), theta.as<float>());
    });
  });
  launched("rotary_angles");
}

void CudaBackend::rotary_angles_backward(const Tensor& dt, const Tensor& turn, const Tensor& dtheta, const Tensor& sums,
                                         const Grad& ddt, const Grad& dturn) {
  const AngleSizes s = angle_sizes(dt, turn);
  const auto count = static_cast<unsigned>(dt.shape[0]) * s.heads * s.pairs;
  if (count == 0 || s.length == 0) return;
  with_warps_together(s, [&](auto together) {
    launch(angles_backward_kernel<together>, blocks_for(count, warps / together), threads, 0, stream(), s, count,
           dtheta.as<float>(), sums.as<float>());
  });
  launched("rotary_angles_backward");
  with_stored_type(turn, [&](auto stored) {
    using T = decltype(stored);
    share_angles(stream(), s, dt.rows(), rows_of(dt), rows_of<T>(turn), sums.as<float>(), sink_of(ddt),
                 sink_of<T>(dturn));
  });
  launched("rotary_angles_backward sums");
}

void CudaBackend::rotate_heads(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& theta,
                               double eps, const Tensor& y, const Tensor& inverse) {
  with_stored_type(x, [&](auto stored) {
    using T = decltype(stored);
    turn_heads(stream(), turned_inputs<T>(x, weight, theta, y, {}), x.rows(), bias.as<float>(), static_cast<float>(eps),
               y.as<T>(), inverse.as<float>());
  });
  launched("rotate_heads");
}

void CudaBackend::rotate_heads_backward(const Tensor& x, const Tensor& weight, const Tensor& theta, const Tensor& y,
                                        const Tensor& inverse, const Tensor& dy, const Tensor& sums, const Grad& dx,
                                        const Grad& dweight, const Grad& dbias, const Grad& dtheta) {
  with_stored_type(x, [&](auto stored) {
    using T = decltype(stored);
    turn_heads_back(*this, turned_inputs<T>(x, weight, theta, y, dy), x.rows(), inverse.as<float>(), sums.as<float>(),
                    sink_of<T>(dx), sink_of(dtheta), dweight, dbias);
  });
  launched("rotate_heads_backward sums");
}

void CudaBackend::pair_squares(const Tensor& x, const PairSquares& squares, const Tensor& y) {
  const Rows<float> in = rows_of(x), out = rows_of(y);
  const unsigned pairs = in.columns / 2, first = squares.invariant ? pairs : 0;
  each(stream(), x.rows() * pairs, [=] __device__(unsigned i) {
    const unsigned row = i / pairs, pair = i % pairs;
    const float a = in.at(row, 2 * pair), b = in.at(row, 2 * pair + 1);
    if (squares.invariant) out.at(row, pair) = a * a + b * b;
    if (!squares.harmonics) return;
    out.at(row, first + 2 * pair) = a * a - b * b;
    out.at(row, first + 2 * pair + 1) = 2.0f * a * b;
  });
  launched("pair_squares");
}

void CudaBackend::pair_squares_backward(const Tensor& x, const PairSquares& squares, const Tensor& dy, const Grad& dx) {
  if (!dx.wanted()) return;
  const Rows<float> in = rows_of(x), up = rows_of(dy);
  const Sink to = sink_of(dx);
  const unsigned pairs = in.columns / 2, first = squares.invariant ? pairs : 0;
  each(stream(), x.rows() * pairs, [=] __device__(unsigned i) {
    const unsigned row = i / pairs, pair = i % pairs;
    const float a = in.at(row, 2 * pair), b = in.at(row, 2 * pair + 1);
    const float size = squares.invariant ? up.at(row, pair) : 0.0f;
    const float real = squares.harmonics ? up.at(row, first + 2 * pair) : 0.0f;
    const float imaginary = squares.harmonics ? up.at(row, first + 2 * pair + 1) : 0.0f;
    to.put(row, 2 * pair, 2.0f * (a * (size + real) + b * imaginary));
    to.put(row, 2 * pair + 1, 2.0f * (b * (size - real) + a * imaginary));
  });
  launched("pair_squares_backward");
}

}  // namespace afterglow
