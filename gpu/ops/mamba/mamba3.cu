// Mamba-3's operations around its scan: trapezoidal steps dt, -rate dt, share dt and (1 - share) dt of each head, and
// pair squares a^2 + b^2, a^2 - b^2 and 2 a b (angles: rotary_angles.cu, rotated keys and queries: rope_heads.cu, the
// gate of heads: gpu/ops/norm/gated_heads.cu). Memory-bound. Grid: a step or pair a thread. T is the stored type of the
// projection's result; steps are float32.
#include "gpu/tile/columns.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

/// Time step, rate and share of one token and head, with their derivatives with respect to the projection's result.
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
    const auto number = [&](unsigned kind) { return float(x.at(row, kind * heads + h)); };
    return step_of(number(0) + bias[h], number(1), number(2), min_rate, min_step);
  }
};

template <class T>
StepInputs<T> step_inputs(const Tensor& x, const Tensor& bias, const StepFloors& floors) {
  return {rows_of<T>(x), bias.as<float>(), unsigned(bias.columns()), float(floors.rate), float(floors.step)};
}

template <class T>
void take_steps(const CudaBackend& backend, const StepInputs<T>& in, std::int64_t rows, const Rows<float>& out) {
  map(backend, "trapezoid_steps", rows * in.heads, [=] __device__(unsigned i) {
    const unsigned row = i / in.heads, h = i % in.heads;
    const Step step = in.at(row, h);
    out.at(row, h) = step.dt;
    out.at(row, in.heads + h) = -step.rate * step.dt;
    out.at(row, 2 * in.heads + h) = step.share * step.dt;
    out.at(row, 3 * in.heads + h) = (1.0f - step.share) * step.dt;
  });
}

template <class T>
void take_steps_backward(CudaBackend& backend, const StepInputs<T>& in, std::int64_t rows, const Rows<float>& up,
                         const SinkOf<T>& to, const Grad& dbias) {
  const auto to_dt = [=] __device__(unsigned row, unsigned h) {
    const Step step = in.at(row, h);
    return step.dt_slope *
           (up.at(row, h) - step.rate * up.at(row, in.heads + h) + step.share * up.at(row, 2 * in.heads + h) +
            (1.0f - step.share) * up.at(row, 3 * in.heads + h));
  };
  if (dbias.wanted()) {
    const SideStream side(backend);
    column_sums(backend, "trapezoid_steps_backward", rows, in.heads, dbias, to_dt);
  }
  if (!to.wanted()) return;
  map(backend, "trapezoid_steps_backward", rows * in.heads, [=] __device__(unsigned i) {
    const unsigned row = i / in.heads, h = i % in.heads;
    const Step step = in.at(row, h);
    const float to_now = up.at(row, 2 * in.heads + h), to_lag = up.at(row, 3 * in.heads + h);
    to.put(row, h, to_dt(row, h));
    to.put(row, in.heads + h, -step.dt * up.at(row, in.heads + h) * step.rate_slope);
    to.put(row, 2 * in.heads + h, (to_now - to_lag) * step.dt * step.share * (1.0f - step.share));
  });
}

}  // namespace

void CudaBackend::trapezoid_steps(const Tensor& x, const Tensor& bias, const StepFloors& floors, const Tensor& y) {
  with_stored_type(
      x, [&](auto stored) { take_steps(*this, step_inputs<decltype(stored)>(x, bias, floors), x.rows(), rows_of(y)); });
}

void CudaBackend::trapezoid_steps_backward(const Tensor& x, const Tensor& bias, const StepFloors& floors,
                                           const Tensor& dy, const Grad& dx, const Grad& dbias) {
  with_stored_type(x, [&]<class T>(T) {
    take_steps_backward(*this, step_inputs<T>(x, bias, floors), x.rows(), rows_of(dy), sink_of<T>(dx), dbias);
  });
}

void CudaBackend::pair_squares(const Tensor& x, const PairSquares& squares, const Tensor& y) {
  const Rows<float> in = rows_of(x), out = rows_of(y);
  const unsigned pairs = in.columns / 2, first = squares.invariant ? pairs : 0;
  map(*this, "pair_squares", x.rows() * pairs, [=] __device__(unsigned i) {
    const unsigned row = i / pairs, pair = i % pairs;
    const float a = in.at(row, 2 * pair), b = in.at(row, 2 * pair + 1);
    if (squares.invariant) out.at(row, pair) = a * a + b * b;
    if (!squares.harmonics) return;
    out.at(row, first + 2 * pair) = a * a - b * b;
    out.at(row, first + 2 * pair + 1) = 2.0f * a * b;
  });
}

void CudaBackend::pair_squares_backward(const Tensor& x, const PairSquares& squares, const Tensor& dy, const Grad& dx) {
  if (!dx.wanted()) return;
  const Rows<float> in = rows_of(x), up = rows_of(dy);
  const Sink to = sink_of(dx);
  const unsigned pairs = in.columns / 2, first = squares.invariant ? pairs : 0;
  map(*this, "pair_squares_backward", x.rows() * pairs, [=] __device__(unsigned i) {
    const unsigned row = i / pairs, pair = i % pairs;
    const float a = in.at(row, 2 * pair), b = in.at(row, 2 * pair + 1);
    const float size = squares.invariant ? up.at(row, pair) : 0.0f;
    const float real = squares.harmonics ? up.at(row, first + 2 * pair) : 0.0f;
    const float imaginary = squares.harmonics ? up.at(row, first + 2 * pair + 1) : 0.0f;
    to.put(row, 2 * pair, 2.0f * (a * (size + real) + b * imaginary));
    to.put(row, 2 * pair + 1, 2.0f * (b * (size - real) + a * imaginary));
  });
}

}  // namespace afterglow
