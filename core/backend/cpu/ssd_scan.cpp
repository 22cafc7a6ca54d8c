// The selective scan h_t = a_t h_{t-1} + dt_t x_t B_t^T, y_t = h_t C_t + D x_t on the CPU, and its gradient. Each
// (batch, head) is one task of the thread pool. The state is N rows of P numbers, so that everything but two inner
// products of the backward pass vectorises along P without sums across lanes. The lag term of token t is added to the
// state right after the output of token t - 1: a_t (h_{t-1} + lag_t x_{t-1} B_{t-1}^T) is a_t times that state.
#include <algorithm>
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/pack.h"
#include "core/backend/cpu/segments.h"
#include "core/backend/scratch.h"

namespace afterglow {
namespace {

constexpr std::int64_t checkpoint_distance = 32;  // tokens; the backward pass recomputes states in between

struct Sizes {
  std::int64_t batch, tokens, heads, groups, width, states;
  explicit Sizes(const ScanInputs& in)
      : batch(in.x.shape[0]),
        tokens(in.x.shape[1]),
        heads(in.heads),
        groups(in.groups),
        width(in.x.columns() / in.heads),
        states(in.B.columns() / in.groups) {}
};

/// Prefetches a row that will be written `tokens_ahead` tokens later. A store that misses the caches stalls all later
/// ones, and the rows of a head are too far apart for the hardware prefetcher.
constexpr std::int64_t tokens_ahead = 8;
template <class T>
void prefetch_for_writing(const T* row, std::int64_t count) {
  constexpr int writing = 1;
  for (std::int64_t i = 0; i < count; i += lanes<T>) __builtin_prefetch(row + i, writing);
  __builtin_prefetch(row + count - 1, writing);
}

/// One head of one sequence.
template <class T>
struct Head {
  std::int64_t tokens, width, padded, states;
  const T *x, *dt, *log_decay, *lag, *B, *C;
  std::int64_t x_stride, dt_stride, log_decay_stride, lag_stride, B_stride, C_stride;
  double rate = 0.0;  // exp(A_log); the decay is exp(-rate dt)
  T skip = 0;         // D

  Head(const ScanInputs& in, const Sizes& s, std::int64_t batch, std::int64_t head)
      : tokens(s.tokens), width(s.width), padded(padded_to_packs<T>(s.width)), states(s.states) {
    const std::int64_t row = batch * s.tokens, group = head / (s.heads / s.groups);
    x_stride = in.x.row_stride;
    B_stride = in.B.row_stride;
    C_stride = in.C.row_stride;
    dt_stride = in.dt.row_stride;
    x = in.x.as<T>() + row * x_stride + head * width;
    B = in.B.as<T>() + row * B_stride + group * states;
    C = in.C.as<T>() + row * C_stride + group * states;
    dt = in.dt.defined() ? in.dt.as<T>() + row * dt_stride + head : nullptr;
    log_decay_stride = in.log_decay.row_stride;
    lag_stride = in.lag.row_stride;
    log_decay = in.log_decay.defined() ? in.log_decay.as<T>() + row * log_decay_stride + head : nullptr;
    lag = in.lag.defined() ? in.lag.as<T>() + row * lag_stride + head : nullptr;
    if (in.A_log.defined()) rate = std::exp(static_cast<double>(in.A_log.as<T>()[head]));
    if (in.D.defined()) skip = in.D.as<T>()[head];
  }
  std::int64_t state_size() const { return states * padded; }
  T step(std::int64_t t) const { return dt ? dt[t * dt_stride] : T{1}; }
  /// decays[t] = a_t for every token, in float64.
  void fill_decays(double* decays) const {
    for (std::int64_t t = 0; t < tokens; ++t)
      decays[t] =
          log_decay ? static_cast<double>(log_decay[t * log_decay_stride]) : -rate * static_cast<double>(step(t));
    Eigen::Map<Eigen::ArrayXd, Eigen::Aligned64> all(decays, tokens);
    all = all.exp();
  }
  /// The weight with which token t enters the state a second time, after its output.
  T late_step(std::int64_t t) const { return lag && t + 1 < tokens ? lag[(t + 1) * lag_stride] : T{0}; }
  /// Fills dt x and, after it, the lag term: twice `padded` numbers; the padding of each is zero.
  void load_input(std::int64_t t, T* input) const {
    const T factor = step(t), late = late_step(t);
    for (std::int64_t p = 0; p < width; ++p) input[p] = factor * x[t * x_stride + p];
    for (std::int64_t p = 0; lag && p < width; ++p) input[padded + p] = late * x[t * x_stride + p];
  }
};

/// Tag of the scratch buffer for the decays of one head.
struct Decays {};

/// next = decay before + B input^T, and out = next C when wanted; then B late^T is added to next. next and before may
/// be the same memory.
template <class T>
void advance(const Head<T>& head, std::int64_t t, T decay, const T* input, const T* before, T* next, T* out) {
  const T* B = head.B + t * head.B_stride;
  const T* C = head.C + t * head.C_stride;
  for (std::int64_t block = 0; block < head.padded; block += lanes<T>) {
    const Pack<T> u = pack(input + block), late = pack(input + head.padded + block);
    Pack<T> sum = Pack<T>::Zero();
    for (std::int64_t n = 0; n < head.states; ++n) {
      Pack<T> h = decay * pack(before + n * head.padded + block) + B[n] * u;
      sum += C[n] * h;
      if (head.lag) h += B[n] * late;
      pack(next + n * head.padded + block) = h;
    }
    if (out) pack(out + block) = sum;
  }
}

struct Forward {};
struct Reverse {};

/// `state` [P,N] is read when `resume` and written when not null.
template <class T>
void scan_head(const Head<T>& head, T* y, std::int64_t y_stride, T* state, bool resume) {
  const std::int64_t size = head.state_size();
  T* h = thread_scratch<T, Forward>(size + 3 * head.padded);
  T *input = h + size, *out = input + 2 * head.padded;
  std::fill_n(h, size + 2 * head.padded, T{0});
  double* decays = thread_scratch<double, Decays>(head.tokens);
  head.fill_decays(decays);
  for (std::int64_t p = 0; resume && p < head.width; ++p) {
    for (std::int64_t n = 0; n < head.states; ++n) h[n * head.padded + p] = state[p * head.states + n];
  }
  for (std::int64_t t = 0; t < head.tokens; ++t) {
    head.load_input(t, input);
    advance(head, t, static_cast<T>(decays[t]), input, h, h, out);
    if (t + tokens_ahead < head.tokens) prefetch_for_writing(y + (t + tokens_ahead) * y_stride, head.width);
    const T* x = head.x + t * head.x_stride;
    for (std::int64_t p = 0; p < head.width; ++p) y[t * y_stride + p] = out[p] + head.skip * x[p];
  }
  for (std::int64_t p = 0; state && p < head.width; ++p) {
    for (std::int64_t n = 0; n < head.states; ++n) state[p * head.states + n] = h[n * head.padded + p];
  }
}

/// The backward pass through one head. dB and dC [T,N] are the head's part of the workspace, because heads share B
/// and C.
template <class T>
class HeadReverse {
 public:
  HeadReverse(const Head<T>& head, const T* dy, std::int64_t dy_stride, T* dB, T* dC)
      : head_(head), dy_(dy), dy_stride_(dy_stride), dB_(dB), dC_(dC) {
    const std::int64_t size = head.state_size(), chunks = (head.tokens + checkpoint_distance - 1) / checkpoint_distance;
    checkpoints_ = thread_scratch<T, Reverse>((chunks + checkpoint_distance + 2) * size + 5 * head.padded +
                                              2 * head.states * lanes<T>);
    states_ = checkpoints_ + chunks * size;
    flow_ = states_ + (checkpoint_distance + 1) * size;
    input_ = flow_ + size;
    upstream_ = input_ + 2 * head.padded;
    dinput_ = upstream_ + head.padded;
    sums_ = dinput_ + 2 * head.padded;
    std::fill_n(flow_, size + 5 * head.padded, T{0});
    decays_ = thread_scratch<double, Decays>(head.tokens);
    head.fill_decays(decays_);
  }

  /// Calls put_token(t, a_t, d input followed by d late input, d a_t) from the last token to the first.
  template <class PutToken>
  void run(const PutToken& put_token) {
    const std::int64_t size = head_.state_size();
    const std::int64_t last_checkpoint = (head_.tokens - 1) / checkpoint_distance * checkpoint_distance;
    std::fill_n(checkpoints_, size, T{0});
    for (std::int64_t t = 0; t < last_checkpoint; ++t) {
      T* from = checkpoints_ + t / checkpoint_distance * size;
      T* running = t % checkpoint_distance == 0 ? from : states_;
      T* next = (t + 1) % checkpoint_distance == 0 ? from + size : states_;
      head_.load_input(t, input_);
      advance<T>(head_, t, decay(t), input_, running, next, nullptr);
    }
    for (std::int64_t end = head_.tokens; end > 0;) {
      const std::int64_t begin = (end - 1) / checkpoint_distance * checkpoint_distance;
      std::copy_n(checkpoints_ + begin / checkpoint_distance * size, size, states_);
      for (std::int64_t t = begin; t < end; ++t) {
        head_.load_input(t, input_);
        advance<T>(head_, t, decay(t), input_, states_ + (t - begin) * size, states_ + (t - begin + 1) * size, nullptr);
      }
      for (std::int64_t t = end - 1; t >= begin; --t) {
        const T* before = states_ + (t - begin) * size;
        put_token(t, decays_[t], dinput_, reverse_token(t, before, before + size));
      }
      end = begin;
    }
  }

 private:
  T decay(std::int64_t t) const { return static_cast<T>(decays_[t]); }

  /// Turns the gradient of the state after token t into that of the state before it; returns d loss / d a_t. The lag
  /// term enters after the output, so its gradient comes from later tokens only.
  T reverse_token(std::int64_t t, const T* before, const T* after) {
    head_.load_input(t, input_);
    std::copy_n(dy_ + t * dy_stride_, head_.width, upstream_);
    Pack<T> ddecay = Pack<T>::Zero();
    for (std::int64_t block = 0; block < head_.padded; block += lanes<T>)
      ddecay +=
          head_.lag ? reverse_block<true>(t, block, before, after) : reverse_block<false>(t, block, before, after);
    for (std::int64_t n = 0; n < head_.states; ++n) {
      dB_[t * head_.states + n] = sum_of<T>(pack(sums_ + 2 * n * lanes<T>));
      dC_[t * head_.states + n] = sum_of<T>(pack(sums_ + (2 * n + 1) * lanes<T>));
    }
    return sum_of<T>(ddecay);
  }

  /// For the columns [block, block + lanes) of the state: sums for d input stay in registers, those for dB and dC go to
  /// the packs of `sums_`. Returns their share of d a_t.
  template <bool late>
  Pack<T> reverse_block(std::int64_t t, std::int64_t block, const T* before, const T* after) {
    const T decay_of_next = t + 1 < head_.tokens ? decay(t + 1) : T{0}, decay_of_this = decay(t);
    const T* B = head_.B + t * head_.B_stride;
    const T* C = head_.C + t * head_.C_stride;
    const Pack<T> dy = pack(upstream_ + block), u = pack(input_ + block), u_late = pack(input_ + head_.padded + block);
    Pack<T> dinput = Pack<T>::Zero(), dinput_late = Pack<T>::Zero(), ddecay = Pack<T>::Zero();
    for (std::int64_t n = 0; n < head_.states; ++n) {
      const std::int64_t at = n * head_.padded + block;
      const Pack<T> from_behind = decay_of_next * pack(flow_ + at), dh = from_behind + C[n] * dy;
      pack(flow_ + at) = dh;
      Pack<T> dB = dh * u, dC;
      ddecay += dh * pack(before + at);
      dinput += B[n] * dh;
      if constexpr (late) {
        dC = dy * (decay_of_this * pack(before + at) + B[n] * u);
        dB += from_behind * u_late;
        dinput_late += B[n] * from_behind;
      } else {
        dC = dy * pack(after + at);
      }
      T* sums = sums_ + 2 * n * lanes<T>;
      if (block > 0) {
        dB += pack(sums);
        dC += pack(sums + lanes<T>);
      }
      pack(sums) = dB;
      pack(sums + lanes<T>) = dC;
    }
    pack(dinput_ + block) = dinput;
    pack(dinput_ + head_.padded + block) = dinput_late;
    return ddecay;
  }

  const Head<T>& head_;
  const T* dy_;
  std::int64_t dy_stride_;
  T *dB_, *dC_;
  T *checkpoints_, *states_, *flow_, *input_, *upstream_, *dinput_, *sums_;
  double* decays_;
};

/// Partial gradients that several heads or sequences share: dC, dB [B,H,T,N], dA_log, dD [B,H].
template <class T>
struct Partials {
  T *dC, *dB, *dA_log, *dD;
  Partials(const Tensor& workspace, const Sizes& s) : dC(workspace.as<T>()) {
    dB = dC + s.batch * s.tokens * s.heads * s.states;
    dA_log = dB + s.batch * s.tokens * s.heads * s.states;
    dD = dA_log + s.batch * s.heads;
  }
};

template <class T>
void reverse_head(const ScanInputs& in, const Sizes& s, std::int64_t batch, std::int64_t index, const Tensor& dy,
                  const Partials<T>& partial, const ScanGrads& out) {
  const Head<T> head(in, s, batch, index);
  const std::int64_t row = batch * s.tokens, y_stride = s.heads * s.width;
  const T* dy_head = dy.as<T>() + row * y_stride + index * s.width;
  const std::int64_t own = (batch * s.heads + index) * s.tokens * s.states;
  HeadReverse<T> reverse(head, dy_head, y_stride, partial.dB + own, partial.dC + own);
  double dA_log = 0.0, dD = 0.0;
  reverse.run([&](std::int64_t t, double decay, const T* dinput, T ddecay) {
    const T* x = head.x + t * head.x_stride;
    const T* dy_row = dy_head + t * y_stride;
    const T* dlate_input = dinput + head.padded;
    const T step = head.step(t), late = head.late_step(t);
    const auto with_x = [&](const T* other) { return (constant_row(x, s.width) * constant_row(other, s.width)).sum(); };
    const T dstep = with_x(dinput), dlate = head.lag ? with_x(dlate_input) : T{0}, dskip = with_x(dy_row);
    const double dlog_decay = decay * static_cast<double>(ddecay);
    dA_log -= dlog_decay * head.rate * static_cast<double>(step);
    dD += static_cast<double>(dskip);
    if (out.x.wanted()) {
      T* dx = out.x.tensor.as<T>() + (row + t) * out.x.tensor.row_stride + index * s.width;
      if (t >= tokens_ahead) prefetch_for_writing(dx - tokens_ahead * out.x.tensor.row_stride, s.width);
      for (std::int64_t p = 0; p < s.width; ++p)
        put(dx + p, step * dinput[p] + late * dlate_input[p] + head.skip * dy_row[p], out.x.accumulate);
    }
    const auto put_at = [&](const Grad& grad, std::int64_t token, double value) {
      if (!grad.wanted() || token >= head.tokens) return;
      put(grad.tensor.as<T>() + (row + token) * grad.tensor.row_stride + index, static_cast<T>(value), grad.accumulate);
    };
    put_at(out.dt, t, static_cast<double>(dstep) - head.rate * dlog_decay);
    put_at(out.log_decay, t, dlog_decay);
    put_at(out.lag, t + 1, static_cast<double>(dlate));
    if (t == 0) put_at(out.lag, 0, 0.0);
  });
  partial.dA_log[batch * s.heads + index] = static_cast<T>(dA_log);
  partial.dD[batch * s.heads + index] = static_cast<T>(dD);
}

/// Adds the heads of each group, in order.
template <class T>
void sum_heads(const T* partial, const Sizes& s, ThreadPool& pool, const Grad& out) {
  if (!out.wanted()) return;
  const std::int64_t heads_per_group = s.heads / s.groups;
  pool.for_ranges(s.batch * s.tokens, row_grain(s.heads * s.states), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * s.groups; i < end * s.groups; ++i) {
      const std::int64_t row = i / s.groups, group = i % s.groups;
      const std::int64_t batch = row / s.tokens, next_head = s.tokens * s.states;
      const T* first = partial + (batch * s.heads + group * heads_per_group) * next_head + row % s.tokens * s.states;
      T* target = out.tensor.as<T>() + row * out.tensor.row_stride + group * s.states;
      for (std::int64_t n = 0; n < s.states; ++n) {
        T sum = 0;
        for (std::int64_t head = 0; head < heads_per_group; ++head) sum += first[head * next_head + n];
        put(target + n, sum, out.accumulate);
      }
    }
  });
}

template <class T>
void sum_batch(const T* partial, const Sizes& s, const Grad& out) {
  if (!out.wanted()) return;
  for (std::int64_t head = 0; head < s.heads; ++head) {
    double sum = 0.0;
    for (std::int64_t batch = 0; batch < s.batch; ++batch) sum += static_cast<double>(partial[batch * s.heads + head]);
    put(out.tensor.as<T>() + head, static_cast<T>(sum), out.accumulate);
  }
}

}  // namespace

void CpuBackend::ssd_scan(const ScanInputs& in, const Tensor& y, const Tensor& state, bool resume) {
  const Sizes s(in);
  with_type(y, [&]<class T>(T) {
    pool_.for_each(s.batch * s.heads, [&](std::int64_t i) {
      const std::int64_t batch = i / s.heads, head = i % s.heads;
      T* head_state = state.defined() ? state.as<T>() + i * s.width * s.states : nullptr;
      scan_head(Head<T>(in, s, batch, head), y.as<T>() + (batch * s.tokens * s.heads + head) * s.width,
                s.heads * s.width, head_state, resume);
    });
  });
}

Plan CpuBackend::plan(const ScanInputs& in) const {
  const Sizes s(in);
  return {.workspace = 2 * s.batch * s.heads * (s.tokens * s.states + 1)};
}

void CpuBackend::ssd_scan_backward(const ScanInputs& in, const Tensor& dy, const Tensor& workspace,
                                   const ScanGrads& out) {
  const Sizes s(in);
  with_type(dy, [&]<class T>(T) {
    const Partials<T> partial(workspace, s);
    pool_.for_each(s.batch * s.heads,
                   [&](std::int64_t i) { reverse_head<T>(in, s, i / s.heads, i % s.heads, dy, partial, out); });
    sum_heads(partial.dB, s, pool_, out.B);
    sum_heads(partial.dC, s, pool_, out.C);
    sum_batch(partial.dA_log, s, out.A_log);
    sum_batch(partial.dD, s, out.D);
  });
}

}  // namespace afterglow
