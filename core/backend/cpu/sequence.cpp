// Rotary position code and causal convolution of the CPU back end.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/pack.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {
namespace {

struct Angles {};
struct Taps {};
struct Slopes {};

/// Rotates the pairs of one head; an odd last element stays.
template <class T>
void turn(const T* x, const T* cosine, const T* sine, std::int64_t width, bool accumulate, T* y) {
  const std::int64_t pairs = width / 2;
  if (accumulate) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const T a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] += a * cosine[i] - b * sine[i];
      y[2 * i + 1] += a * sine[i] + b * cosine[i];
    }
    if (width % 2 == 1) y[width - 1] += x[width - 1];
  } else {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const T a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = a * cosine[i] - b * sine[i];
      y[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
    if (width % 2 == 1) y[width - 1] = x[width - 1];
  }
}

/// The weights [c,1,w] as one contiguous row of channels per tap [w,c].
template <class T>
const T* taps_of(const Tensor& weight) {
  const std::int64_t channels = weight.shape[0], width = weight.shape[2];
  T* taps = thread_scratch<T, Taps>(channels * width);
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t j = 0; j < width; ++j) taps[j * channels + c] = weight.as<T>()[c * width + j];
  }
  return taps;
}

/// One sequence of a convolution's input: its rows, and before them the history or zeros.
template <class T>
struct Past {
  const T* rows;
  std::int64_t stride;
  const T* history;  // [w-1, c] or null
  std::int64_t width, channels;
  /// Input at `time`, which may be negative; null means zeros.
  const T* at(std::int64_t time) const {
    if (time >= 0) return rows + time * stride;
    return history == nullptr ? nullptr : history + (time + width - 1) * channels;
  }
};

template <class T>
Past<T> past_of(const Tensor& x, const Tensor& history, std::int64_t batch, std::int64_t width) {
  const std::int64_t channels = x.columns();
  return {row_of<T>(x, batch * x.shape[1]), x.row_stride,
          history.defined() ? history.as<T>() + batch * (width - 1) * channels : nullptr, width, channels};
}

/// The last w-1 inputs become the history of the next call.
template <class T>
void advance_history(const Past<T>& past, std::int64_t length, T* history) {
  // Rows are taken in order of time, so a row is read before it is overwritten.
  for (std::int64_t i = 0; i < past.width - 1; ++i) {
    const T* row = past.at(length - (past.width - 1) + i);
    std::copy_n(row, past.channels, history + i * past.channels);
  }
}

/// The backward pass of a convolution for the rows [begin, end) and one pack of channels from `channel` on: small
/// enough that all that it reads again stays in the L1 cache.
template <class T>
struct ConvStrip {
  const Tensor &x, &before, &dy;
  std::int64_t length, width, begin, end, channel, count;
  T* slopes = nullptr;  // d(before), a pack for each row, then for the w - 1 rows after the strip

  void fill_slopes() {
    const std::int64_t last = std::min(end + width - 1, x.rows());
    slopes = thread_scratch<T, Slopes>((last - begin) * lanes<T>);
    for (std::int64_t r = begin; r < last; ++r) {
      const Pack<T> sum = first_lanes(row_of<T>(before, r) + channel, count), sigma = sum.logistic();
      pack(slopes + (r - begin) * lanes<T>) =
          first_lanes(row_of<T>(dy, r) + channel, count) * sigma * (T{1} + sum * (T{1} - sigma));
    }
  }
  /// Adds to the gradient sums of every tap [w,c] and, stored after them, of the bias [c].
  void add_weight_sums(T* sums) const {
    const std::int64_t channels = x.columns();
    for (std::int64_t j = 0; j <= width; ++j) {
      T* place = sums + j * channels + channel;
      put_first_lanes(place, count, j < width ? tap_sum(width - 1 - j) : slope_sum(), true);
    }
  }
  /// d x of a row sums over the outputs that read it: its own and the next w - 1 of its sequence.
  void put_inputs(const T* taps, const Grad& dx) const {
    const std::int64_t channels = x.columns();
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t later = std::min(width, length - r % length);
      Pack<T> sum = Pack<T>::Zero();
      for (std::int64_t lag = 0; lag < later; ++lag)
        sum += first_lanes(taps + (width - 1 - lag) * channels + channel, count) *
               pack(slopes + (r + lag - begin) * lanes<T>);
      put_first_lanes(row_of<T>(dx.tensor, r) + channel, count, sum, dx.accumulate);
    }
  }

 private:
  Pack<T> slope_sum() const {
    Pack<T> sum = Pack<T>::Zero();
    for (std::int64_t r = begin; r < end; ++r) sum += pack(slopes + (r - begin) * lanes<T>);
    return sum;
  }
  /// Sums over the rows that have an input `lag` rows earlier in their sequence.
  Pack<T> tap_sum(std::int64_t lag) const {
    Pack<T> sum = Pack<T>::Zero();
    for (std::int64_t sequence = begin / length * length; sequence < end; sequence += length) {
      const std::int64_t last = std::min(end, sequence + length);
      for (std::int64_t r = std::max(begin, sequence + lag); r < last; ++r)
        sum += pack(slopes + (r - begin) * lanes<T>) * first_lanes(row_of<T>(x, r - lag) + channel, count);
    }
    return sum;
  }
};

}  // namespace

void CpuBackend::rotary(std::span<const Tensor> x, const RotaryRates& rates, std::int64_t first_position, bool inverse,
                        std::span<const Grad> y) {
  for (std::size_t i = 0; i < x.size(); ++i) turn_pairs(x[i], rates, first_position, inverse, y[i]);
}

void CpuBackend::turn_pairs(const Tensor& x, const RotaryRates& rates, std::int64_t first_position, bool inverse,
                            const Grad& y) {
  if (!y.wanted()) return;
  const std::int64_t batch = x.shape[0], length = x.shape[1], heads = x.shape[2], width = x.shape[3];
  const std::int64_t turned = rates.width > 0 ? rates.width : width, pairs = width / 2, token = heads * width;
  with_type(x, [&]<class T>(T) {
    pool_.for_ranges(
        length, std::max<std::int64_t>(1, row_grain(batch * token)), [&](std::int64_t begin, std::int64_t end) {
          T* cosine = thread_scratch<T, Angles>(2 * pairs);
          T* sine = cosine + pairs;
          for (std::int64_t t = begin; t < end; ++t) {
            for (std::int64_t i = 0; i < pairs; ++i) {
              const double rate = std::pow(rates.base, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
              const double angle = static_cast<double>(first_position + t) * rate * rates.stretch(i, rate);
              const bool turns = 2 * i < turned;
              cosine[i] = static_cast<T>(turns ? rates.gain * std::cos(angle) : 1.0);
              sine[i] = static_cast<T>(turns ? rates.gain * (inverse ? -std::sin(angle) : std::sin(angle)) : 0.0);
            }
            for (std::int64_t b = 0; b < batch; ++b) {
              const std::int64_t at = (b * length + t) * token;
              for (std::int64_t h = 0; h < heads; ++h)
                turn(x.as<T>() + at + h * width, cosine, sine, width, y.accumulate, y.tensor.as<T>() + at + h * width);
            }
          }
        });
  });
}

void CpuBackend::causal_conv(const Convolution& conv, const UnitHeads& /*none*/, const Tensor& y) {
  const auto& [x, weight, bias, before, history] = conv;
  const std::int64_t length = x.shape[1], channels = x.columns(), width = weight.shape[2];
  with_type(x, [&]<class T>(T) {
    const T* taps = taps_of<T>(weight);
    for_rows(pool_, x.rows(), channels, [&](std::int64_t r) {
      const Past<T> past = past_of<T>(x, history, r / length, width);
      ArrayMap<T> sum = whole_row<T>(before, r);
      if (bias.defined()) {
        sum = ArrayMap<T>(bias.as<T>(), channels);
      } else {
        sum.setZero();
      }
      for (std::int64_t j = 0; j < width; ++j) {
        const T* input = past.at(r % length - (width - 1) + j);
        if (input != nullptr) sum += constant_row(taps + j * channels, channels) * constant_row(input, channels);
      }
      whole_row<T>(y, r) = sum * sum.logistic();
    });
    if (!history.defined()) return;
    for (std::int64_t b = 0; b < x.shape[0]; ++b) {
      const Past<T> past = past_of<T>(x, history, b, width);
      advance_history(past, length, history.as<T>() + b * (width - 1) * channels);
    }
  });
}

void CpuBackend::conv_with_steps(const Convolution& conv, const Tensor& y, const StepSizes& steps,
                                 const Tensor& sizes) {
  causal_conv(conv, {}, y);
  softplus_bias(steps.x, steps.bias, steps.range, sizes);
}

void CpuBackend::conv_with_steps_backward(const Convolution& conv, const Tensor& dy, const ConvolutionGrads& dconv,
                                          const StepSizes& steps, const Tensor& dsizes, const StepSizesGrads& dsteps) {
  softplus_bias_backward(steps.x, steps.bias, steps.range, dsizes, dsteps.x, dsteps.bias);
  causal_conv_backward(conv, {}, dy, dconv);
}

void CpuBackend::causal_conv_backward(const Convolution& conv, const UnitHeads& /*none*/, const Tensor& dy,
                                      const ConvolutionGrads& out) {
  const Tensor& x = conv.x;
  const std::int64_t length = x.shape[1], channels = x.columns(), width = conv.weight.shape[2];
  with_type(x, [&]<class T>(T) {
    const T* taps = taps_of<T>(conv.weight);
    const auto rows = [&](std::int64_t begin, std::int64_t end, T* sums) {
      for (std::int64_t c = 0; c < channels; c += lanes<T>) {
        ConvStrip<T> strip{x, conv.before, dy, length, width, begin, end, c, std::min(lanes<T>, channels - c)};
        strip.fill_slopes();
        strip.add_weight_sums(sums);
        if (out.x.wanted()) strip.put_inputs(taps, out.x);
      }
    };
    sum_over_rows<T>(pool_, x.rows(), (width + 1) * channels, rows, [&](const ArrayMap<T>& total) {
      if (out.bias.wanted()) put_vector<T>(out.bias, total.tail(channels));
      if (!out.weight.wanted()) return;
      T* to = out.weight.tensor.as<T>();
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t j = 0; j < width; ++j)
          to[c * width + j] = total[j * channels + c] + (out.weight.accumulate ? to[c * width + j] : T{0});
      }
    });
  });
}

}  // namespace afterglow
