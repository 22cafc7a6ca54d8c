// What Mamba-3 computes around its scan, on the CPU: trapezoidal steps, angles, rotated keys and queries, pair squares.
#include <cmath>
#include <numbers>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {
namespace {

constexpr double pi = std::numbers::pi;

/// Time step, rate and share of one token and head, with their derivatives by the outputs of the projection.
template <class T>
struct Step {
  T dt, rate, share, dt_slope, rate_slope;
  Step(T raw, T A, T trap, const StepFloors& floors) : share(sigmoid(trap)) {
    const T natural = std::max(raw, T{0}) + std::log1p(std::exp(-std::abs(raw)));
    const T below = T{1} / (T{1} - A), natural_rate = A >= 0 ? T{1} + A : below;
    const T min_step = static_cast<T>(floors.step), min_rate = static_cast<T>(floors.rate);
    dt = std::max(natural, min_step);
    dt_slope = natural < min_step ? T{0} : sigmoid(raw);
    rate = std::max(natural_rate, min_rate);
    rate_slope = natural_rate < min_rate ? T{0} : A >= 0 ? T{1} : below * below;
  }
};

double into_one_turn(double angle) { return angle - 2.0 * pi * std::nearbyint(angle / (2.0 * pi)); }

struct Turns {};
struct Sums {};
struct NormedHeads {};

/// Rotates one pair by an angle; a negative sine rotates back.
template <class T>
void turn_pair(T* pair, T cosine, T sine) {
  const T a = pair[0], b = pair[1];
  pair[0] = a * cosine - b * sine;
  pair[1] = a * sine + b * cosine;
}

}  // namespace

void CpuBackend::trapezoid_steps(const Tensor& x, const Tensor& bias, const StepFloors& floors, const Tensor& y) {
  const std::int64_t heads = bias.columns();
  for_typed_rows(pool_, y, x.rows(), y.columns(), [&]<class T>(T, std::int64_t r) {
    const T* in = row_of<T>(x, r);
    T* out = row_of<T>(y, r);
    for (std::int64_t h = 0; h < heads; ++h) {
      const Step<T> step(in[h] + bias.as<T>()[h], in[heads + h], in[2 * heads + h], floors);
      out[h] = step.dt;
      out[heads + h] = -step.rate * step.dt;
      out[2 * heads + h] = step.share * step.dt;
      out[3 * heads + h] = (T{1} - step.share) * step.dt;
    }
  });
}

void CpuBackend::trapezoid_steps_backward(const Tensor& x, const Tensor& bias, const StepFloors& floors,
                                          const Tensor& dy, const Grad& dx, const Grad& dbias) {
  const std::int64_t heads = bias.columns();
  with_type(dy, [&]<class T>(T) {
    const auto rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T *in = row_of<T>(x, r), *up = row_of<T>(dy, r);
        for (std::int64_t h = 0; h < heads; ++h) {
          const Step<T> step(in[h] + bias.as<T>()[h], in[heads + h], in[2 * heads + h], floors);
          const T to_decay = up[heads + h], to_now = up[2 * heads + h], to_lag = up[3 * heads + h];
          const T to_dt =
              step.dt_slope * (up[h] - step.rate * to_decay + step.share * to_now + (T{1} - step.share) * to_lag);
          sums[h] += to_dt;
          if (!dx.wanted()) continue;
          T* out = row_of<T>(dx.tensor, r);
          put(out + h, to_dt, dx.accumulate);
          put(out + heads + h, -step.dt * to_decay * step.rate_slope, dx.accumulate);
          put(out + 2 * heads + h, (to_now - to_lag) * step.dt * step.share * (T{1} - step.share), dx.accumulate);
        }
      }
    };
    sum_over_rows<T>(pool_, x.rows(), heads, rows, [&](const ArrayMap<T>& total) { put_vector<T>(dbias, total); });
  });
}

void CpuBackend::rotary_angles(const Tensor& dt, const Tensor& turn, const Tensor& carry, const Tensor& theta) {
  const std::int64_t tokens = dt.shape[1], heads = dt.columns(), pairs = turn.columns();
  with_type(theta, [&]<class T>(T) {
    pool_.for_each(dt.shape[0], [&](std::int64_t b) {
      T* kept = carry.defined() ? carry.as<T>() + b * heads * pairs : nullptr;
      double* sums = thread_scratch<double, Sums>(heads * pairs);
      double* turns = thread_scratch<double, Turns>(pairs);
      for (std::int64_t i = 0; i < heads * pairs; ++i) sums[i] = kept ? static_cast<double>(kept[i]) : 0.0;
      for (std::int64_t r = b * tokens; r < (b + 1) * tokens; ++r) {
        const T *steps = row_of<T>(dt, r), *raw = row_of<T>(turn, r);
        T* out = theta.as<T>() + r * heads * pairs;
        for (std::int64_t i = 0; i < pairs; ++i) turns[i] = pi * static_cast<double>(std::tanh(raw[i]));
        for (std::int64_t i = 0; i < heads * pairs; ++i) {
          sums[i] += static_cast<double>(steps[i / pairs]) * turns[i % pairs];
          out[i] = static_cast<T>(into_one_turn(sums[i]));
        }
        if (kept && r + 1 == (b + 1) * tokens) std::copy_n(out, heads * pairs, kept);
      }
    });
  });
}

void CpuBackend::rotary_angles_backward(const Tensor& dt, const Tensor& turn, const Tensor& dtheta, const Tensor&,
                                        const Grad& ddt, const Grad& dturn) {
  const std::int64_t tokens = dt.shape[1], heads = dt.columns(), pairs = turn.columns();
  with_type(dtheta, [&]<class T>(T) {
    pool_.for_each(dt.shape[0], [&](std::int64_t b) {
      double* sums = thread_scratch<double, Sums>(heads * pairs);
      std::fill_n(sums, heads * pairs, 0.0);
      for (std::int64_t r = (b + 1) * tokens - 1; r >= b * tokens; --r) {
        const T *steps = row_of<T>(dt, r), *raw = row_of<T>(turn, r), *up = dtheta.as<T>() + r * heads * pairs;
        for (std::int64_t i = 0; i < heads * pairs; ++i) sums[i] += static_cast<double>(up[i]);
        for (std::int64_t h = 0; ddt.wanted() && h < heads; ++h) {
          double sum = 0.0;
          for (std::int64_t i = 0; i < pairs; ++i)
            sum += sums[h * pairs + i] * pi * static_cast<double>(std::tanh(raw[i]));
          put(row_of<T>(ddt.tensor, r) + h, static_cast<T>(sum), ddt.accumulate);
        }
        for (std::int64_t i = 0; dturn.wanted() && i < pairs; ++i) {
          const double y = static_cast<double>(std::tanh(raw[i]));
          double sum = 0.0;
          for (std::int64_t h = 0; h < heads; ++h) sum += sums[h * pairs + i] * static_cast<double>(steps[h]);
          put(row_of<T>(dturn.tensor, r) + i, static_cast<T>(sum * pi * (1.0 - y * y)), dturn.accumulate);
        }
      }
    });
  });
}

void CpuBackend::rotate_heads(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& theta,
                              double eps, const Tensor& y, const Tensor& inverse) {
  const std::int64_t states = x.columns(), heads = bias.shape[0], pairs = theta.defined() ? theta.columns() : 0;
  with_type(y, [&]<class T>(T) {
    const ArrayMap<T> w(weight.as<T>(), states);
    for_rows(pool_, x.rows(), heads * states, [&](std::int64_t r) {
      const ArrayMap<T> in = whole_row<T>(x, r);
      const T scale = T{1} / std::sqrt(in.square().sum() / static_cast<T>(states) + static_cast<T>(eps));
      inverse.as<T>()[r] = scale;
      for (std::int64_t h = 0; h < heads; ++h) {
        T* out = y.as<T>() + (r * heads + h) * states;
        ArrayMap<T>(out, states) = in * scale * w + constant_row(bias.as<T>() + h * states, states);
        for (std::int64_t i = 0; i < pairs; ++i) {
          const T angle = theta.as<T>()[(r * heads + h) * pairs + i];
          turn_pair(out + 2 * i, std::cos(angle), std::sin(angle));
        }
      }
    });
  });
}

void CpuBackend::rotate_heads_backward(const Tensor& x, const Tensor& weight, const Tensor& theta, const Tensor& y,
                                       const Tensor& inverse, const Tensor& dy, const Tensor&, const Grad& dx,
                                       const Grad& dweight, const Grad& dbias, const Grad& dtheta) {
  const std::int64_t states = x.columns(), heads = y.shape[2], pairs = theta.defined() ? theta.columns() : 0;
  with_type(dy, [&]<class T>(T) {
    const ArrayMap<T> w(weight.as<T>(), states);
    // Sums: the bias of every head, then the weight.
    const auto rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      const std::int64_t padded = (states + 15) / 16 * 16;
      T* memory = thread_scratch<T, NormedHeads>(2 * padded);
      ArrayMap<T> straight(memory, states), of_heads(memory + padded, states);
      for (std::int64_t r = begin; r < end; ++r) {
        of_heads.setZero();
        for (std::int64_t h = 0; h < heads; ++h) {
          const T *up = dy.as<T>() + (r * heads + h) * states, *out = y.as<T>() + (r * heads + h) * states;
          straight = constant_row(up, states);
          for (std::int64_t i = 0; i < pairs; ++i) {
            const std::int64_t at = (r * heads + h) * pairs + i;
            const T angle = theta.as<T>()[at];
            turn_pair(straight.data() + 2 * i, std::cos(angle), -std::sin(angle));
            if (dtheta.wanted())
              put(dtheta.tensor.as<T>() + at, up[2 * i + 1] * out[2 * i] - up[2 * i] * out[2 * i + 1],
                  dtheta.accumulate);
          }
          ArrayMap<T>(sums + h * states, states) += straight;
          of_heads += straight;
        }
        const ArrayMap<T> in = whole_row<T>(x, r);
        const T scale = inverse.as<T>()[r];
        const T pull = (of_heads * w * in).sum() * scale * scale * scale / static_cast<T>(states);
        ArrayMap<T>(sums + heads * states, states) += of_heads * in * scale;
        put_row<T>(dx, r, of_heads * w * scale - in * pull);
      }
    };
    sum_over_rows<T>(pool_, x.rows(), (heads + 1) * states, rows, [&](const ArrayMap<T>& total) {
      put_vector<T>(dbias, total.head(heads * states));
      put_vector<T>(dweight, total.tail(states));
    });
  });
}

void CpuBackend::pair_squares(const Tensor& x, const PairSquares& squares, const Tensor& y) {
  const std::int64_t pairs = x.columns() / 2;
  for_typed_rows(pool_, y, x.rows(), x.columns(), [&]<class T>(T, std::int64_t r) {
    const T* k = row_of<T>(x, r);
    T *invariant = row_of<T>(y, r), *harmonic = invariant + (squares.invariant ? pairs : 0);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const T a = k[2 * i], b = k[2 * i + 1];
      if (squares.invariant) invariant[i] = a * a + b * b;
      if (!squares.harmonics) continue;
      harmonic[2 * i] = a * a - b * b;
      harmonic[2 * i + 1] = 2 * a * b;
    }
  });
}

void CpuBackend::pair_squares_backward(const Tensor& x, const PairSquares& squares, const Tensor& dy, const Grad& dx) {
  if (!dx.wanted()) return;
  const std::int64_t pairs = x.columns() / 2;
  for_typed_rows(pool_, dy, x.rows(), x.columns(), [&]<class T>(T, std::int64_t r) {
    const T *k = row_of<T>(x, r), *invariant = row_of<T>(dy, r);
    const T* harmonic = invariant + (squares.invariant ? pairs : 0);
    T* out = row_of<T>(dx.tensor, r);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const T a = k[2 * i], b = k[2 * i + 1], size = squares.invariant ? invariant[i] : T{0};
      const T real = squares.harmonics ? harmonic[2 * i] : T{0};
      const T imaginary = squares.harmonics ? harmonic[2 * i + 1] : T{0};
      put(out + 2 * i, 2 * (a * (size + real) + b * imaginary), dx.accumulate);
      put(out + 2 * i + 1, 2 * (b * (size - real) + a * imaginary), dx.accumulate);
    }
  });
}

}  // namespace afterglow
