// Mamba-1's selective scan on the CPU and its gradient. Each channel of a sequence has N states of its own, which are
// computed side by side; a task of the thread pool is a range of channels of one sequence.
#include <Eigen/Core>
#include <algorithm>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/segments.h"
#include "core/backend/scratch.h"

namespace afterglow {
namespace {

constexpr std::int64_t channels_of_task = 32;

struct Sizes {
  std::int64_t batch, tokens, channels, states;
  explicit Sizes(const ChannelScanInputs& in)
      : batch(in.x.shape[0]), tokens(in.x.shape[1]), channels(in.x.shape[2]), states(in.B.shape[2]) {}
  std::int64_t ranges() const { return (channels + channels_of_task - 1) / channels_of_task; }
  std::int64_t tasks() const { return batch * ranges(); }
};

template <class T>
using States = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstStates = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

/// One channel of one sequence.
template <class T>
struct Channel {
  std::int64_t row, channel, states;  ///< row: of the sequence's first token
  const ChannelScanInputs& in;
  ConstStates<T> A_log;
  T skip;

  Channel(const ChannelScanInputs& inputs, const Sizes& s, std::int64_t batch, std::int64_t c)
      : row(batch * s.tokens),
        channel(c),
        states(s.states),
        in(inputs),
        A_log(inputs.A_log.as<T>() + c * s.states, s.states),
        skip(inputs.D.as<T>()[c]) {}
  T x(std::int64_t t) const { return in.x.as<T>()[(row + t) * in.x.row_stride + channel]; }
  T step(std::int64_t t) const { return in.dt.as<T>()[(row + t) * in.dt.row_stride + channel]; }
  ConstStates<T> B(std::int64_t t) const { return {in.B.as<T>() + (row + t) * in.B.row_stride, states}; }
  ConstStates<T> C(std::int64_t t) const { return {in.C.as<T>() + (row + t) * in.C.row_stride, states}; }
  void put(const Grad& grad, std::int64_t t, T value) const {
    if (grad.wanted())
      put_into(grad.tensor.as<T>()[(row + t) * grad.tensor.row_stride + channel], value, grad.accumulate);
  }
};

struct Forward {};
struct Reverse {};

template <class T>
void scan_channel(const Channel<T>& c, std::int64_t tokens, T* y, std::int64_t y_stride, T* state, bool resume) {
  T* room = thread_scratch<T, Forward>(2 * c.states);
  States<T> h(room, c.states), rate(room + c.states, c.states);
  rate = -c.A_log.exp();
  if (resume) {
    h = States<T>(state, c.states);
  } else {
    h.setZero();
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    const T step = c.step(t), x = c.x(t);
    h = (rate * step).exp() * h + (step * x) * c.B(t);
    y[t * y_stride] = (h * c.C(t)).sum() + c.skip * x;
  }
  if (state != nullptr) States<T>(state, c.states) = h;
}

/// Sums over channels or sequences: dB, dC [task,T,N], dA_log [B,c,N], dD [B,c].
template <class T>
struct Partials {
  T *dB, *dC, *dA_log, *dD;
  Partials(const Tensor& workspace, const Sizes& s) : dB(workspace.as<T>()) {
    dC = dB + s.tasks() * s.tokens * s.states;
    dA_log = dC + s.tasks() * s.tokens * s.states;
    dD = dA_log + s.batch * s.channels * s.states;
  }
};

/// Adds the channel's share to dB and dC [T,N].
template <class T>
void reverse_channel(const Channel<T>& c, const Sizes& s, const Tensor& all_dy, T* dB, T* dC, const Partials<T>& sums,
                     const ChannelScanGrads& out) {
  const std::int64_t N = c.states, whole = s.tokens * N, index = c.row / s.tokens * s.channels + c.channel;
  T* room = thread_scratch<T, Reverse>(2 * whole + 3 * N);
  const auto row_of = [&](T* first, std::int64_t t) { return States<T>(first + t * N, N); };
  T *states = room + 3 * N, *decays = states + whole;
  States<T> rate(room, N), flow(room + N, N), fading(room + 2 * N, N), dA_log(sums.dA_log + index * N, N);
  rate = -c.A_log.exp();
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    row_of(decays, t) = (rate * c.step(t)).exp();
    row_of(states, t) = (c.step(t) * c.x(t)) * c.B(t);
    if (t > 0) row_of(states, t) += row_of(decays, t) * row_of(states, t - 1);
  }
  flow.setZero();
  dA_log.setZero();
  T dD = 0;
  const T* dy = all_dy.as<T>() + c.row * s.channels + c.channel;
  for (std::int64_t t = s.tokens - 1; t >= 0; --t) {
    const T step = c.step(t), x = c.x(t), up = dy[t * s.channels];
    flow += up * c.C(t);
    row_of(dC, t) += up * row_of(states, t);
    row_of(dB, t) += (step * x) * flow;
    const T dinput = (flow * c.B(t)).sum();
    flow *= row_of(decays, t);
    fading.setZero();  // gradient of log decay / dt: A times what the decay multiplies
    if (t > 0) fading = rate * flow * row_of(states, t - 1);
    dA_log += step * fading;
    c.put(out.x, t, step * dinput + c.skip * up);
    c.put(out.dt, t, x * dinput + fading.sum());
    dD += up * x;
  }
  sums.dD[index] = dD;
}

/// out[i] = the sum of `count` partial rows from `first` on, which lie `stride` apart.
template <class T>
void put_sums(const T* first, std::int64_t count, std::int64_t stride, std::int64_t columns, const Grad& out,
              std::int64_t row) {
  for (std::int64_t i = 0; i < columns; ++i) {
    T sum = 0;
    for (std::int64_t k = 0; k < count; ++k) sum += first[k * stride + i];
    put_into(out.tensor.as<T>()[row * out.tensor.row_stride + i], sum, out.accumulate);
  }
}

template <class Body>
void for_channels(ThreadPool& pool, const Sizes& s, const Body& body) {
  pool.for_each(s.tasks(), [&](std::int64_t task) {
    const std::int64_t first = task % s.ranges() * channels_of_task;
    for (std::int64_t c = first; c < std::min(first + channels_of_task, s.channels); ++c)
      body(task, task / s.ranges(), c);
  });
}

}  // namespace

void CpuBackend::channel_scan(const ChannelScanInputs& in, const Tensor& y, const Tensor& state, bool resume) {
  const Sizes s(in);
  with_type(y, [&]<class T>(T) {
    for_channels(pool_, s, [&](std::int64_t, std::int64_t batch, std::int64_t c) {
      T* own = state.defined() ? state.as<T>() + (batch * s.channels + c) * s.states : nullptr;
      scan_channel(Channel<T>(in, s, batch, c), s.tokens, y.as<T>() + batch * s.tokens * s.channels + c, s.channels,
                   own, resume);
    });
  });
}

Plan CpuBackend::plan(const ChannelScanInputs& in) const {
  const Sizes s(in);
  return {.workspace = 2 * s.tasks() * s.tokens * s.states + s.batch * s.channels * (s.states + 1)};
}

void CpuBackend::channel_scan_backward(const ChannelScanInputs& in, const Tensor& dy, const Tensor& workspace,
                                       const ChannelScanGrads& out) {
  const Sizes s(in);
  with_type(dy, [&]<class T>(T) {
    const Partials<T> sums(workspace, s);
    const std::int64_t own = s.tokens * s.states;
    std::fill_n(sums.dB, 2 * s.tasks() * own, T{0});
    for_channels(pool_, s, [&](std::int64_t task, std::int64_t batch, std::int64_t c) {
      reverse_channel(Channel<T>(in, s, batch, c), s, dy, sums.dB + task * own, sums.dC + task * own, sums, out);
    });
    const auto put_rows = [&](const T* parts, const Grad& grad) {
      for (std::int64_t row = 0; grad.wanted() && row < s.batch * s.tokens; ++row)
        put_sums(parts + row / s.tokens * s.ranges() * own + row % s.tokens * s.states, s.ranges(), own, s.states, grad,
                 row);
    };
    put_rows(sums.dB, out.B);
    put_rows(sums.dC, out.C);
    if (out.A_log.wanted())
      for (std::int64_t c = 0; c < s.channels; ++c)
        put_sums(sums.dA_log + c * s.states, s.batch, s.channels * s.states, s.states, out.A_log, c);
    if (out.D.wanted()) put_sums(sums.dD, s.batch, s.channels, s.channels, out.D, 0);
  });
}

}  // namespace afterglow
