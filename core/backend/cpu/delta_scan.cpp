// The delta-rule family on the CPU and its gradient, by the recurrence. Each (batch, head) is one task of the
// thread pool. The state is K rows of P numbers, so that reads and updates vectorise along P without sums across lanes.
//
// The backward pass, with e = v - S'^T k, u = beta e, and the gradient dS of the state from later tokens:
//     dS += scale q dy^T        du = dS^T k       dbeta = du . e      dv = beta du
//     dq = scale (S' dy + k (u . dy))             dk = dS u - S' dv   (the second term with beta only)
//     dS' = dS - k dv^T                           dg = rows of dS' * S'               dS <- diag(exp g) dS'
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/pack.h"
#include "core/backend/delta.h"
#include "core/backend/scratch.h"

namespace afterglow {
namespace {

constexpr std::int64_t checkpoint_distance = 32;  // tokens; the backward pass recomputes states in between

/// One head of one sequence.
template <class T>
struct Head {
  std::int64_t tokens, heads, keys, width, padded;
  const T *q, *k, *v, *beta = nullptr, *g = nullptr;
  bool by_channel;
  T scale;

  Head(const DeltaInputs& in, std::int64_t index)
      : tokens(in.q.shape[1]),
        heads(in.q.shape[2]),
        keys(in.q.shape[3]),
        width(in.v.shape[3]),
        padded(padded_to_packs<T>(width)),
        by_channel(in.g.defined() && in.g.shape.rank() == 4),
        scale(static_cast<T>(in.scale)) {
    const std::int64_t first = index / heads * tokens * heads + index % heads;
    q = in.q.as<T>() + first * keys;
    k = in.k.as<T>() + first * keys;
    v = in.v.as<T>() + first * width;
    if (in.beta.defined()) beta = in.beta.as<T>() + first;
    if (in.g.defined()) g = in.g.as<T>() + first * (by_channel ? keys : 1);
  }
  std::int64_t size() const { return keys * padded; }
  std::int64_t chunks() const { return (tokens + checkpoint_distance - 1) / checkpoint_distance; }
  const T* query(std::int64_t t) const { return q + t * heads * keys; }
  const T* key(std::int64_t t) const { return k + t * heads * keys; }
  const T* value(std::int64_t t) const { return v + t * heads * width; }
  T strength(std::int64_t t) const { return beta ? beta[t * heads] : T{1}; }
  /// exp(g_t) of every channel.
  void load_decay(std::int64_t t, T* decay) const {
    if (by_channel) {
      using Row = Eigen::Array<T, Eigen::Dynamic, 1>;
      Eigen::Map<Row>(decay, keys) = Eigen::Map<const Row>(g + t * heads * keys, keys).exp();
    } else {
      std::fill_n(decay, keys, g ? std::exp(g[t * heads]) : T{1});
    }
  }
};

/// The step of token t: `error` receives e, `out`, when wanted, y. next and before may be the same memory.
template <class T>
void advance(const Head<T>& head, std::int64_t t, const T* decay, const T* before, T* next, T* error, T* out) {
  const T *k = head.key(t), *q = head.query(t), strength = head.strength(t);
  std::fill_n(error, head.padded, T{0});
  std::copy_n(head.value(t), head.width, error);
  for (std::int64_t block = 0; block < head.padded; block += lanes<T>) {
    Pack<T> e = pack(error + block);
    for (std::int64_t i = 0; head.beta && i < head.keys; ++i)
      e -= k[i] * decay[i] * pack(before + i * head.padded + block);
    pack(error + block) = e;
    const Pack<T> u = strength * e;
    Pack<T> sum = Pack<T>::Zero();
    for (std::int64_t i = 0; i < head.keys; ++i) {
      const Pack<T> s = decay[i] * pack(before + i * head.padded + block) + k[i] * u;
      pack(next + i * head.padded + block) = s;
      sum += q[i] * s;
    }
    if (out) pack(out + block) = head.scale * sum;
  }
}

struct Forward {};
struct Reverse {};

/// `state` [K,P] is read when `resume` and written when not null.
template <class T>
void scan_head(const Head<T>& head, T* y, T* state, bool resume) {
  T* s = thread_scratch<T, Forward>(head.size() + 2 * head.padded + head.keys);
  T *error = s + head.size(), *out = error + head.padded, *decay = out + head.padded;
  std::fill_n(s, head.size(), T{0});
  for (std::int64_t i = 0; resume && i < head.keys; ++i)
    std::copy_n(state + i * head.width, head.width, s + i * head.padded);
  for (std::int64_t t = 0; t < head.tokens; ++t) {
    head.load_decay(t, decay);
    advance(head, t, decay, s, s, error, out);
    std::copy_n(out, head.width, y + t * head.heads * head.width);
  }
  for (std::int64_t i = 0; state && i < head.keys; ++i)
    std::copy_n(s + i * head.padded, head.width, state + i * head.width);
}

template <class T>
class HeadReverse {
 public:
  HeadReverse(const DeltaInputs& in, std::int64_t index, const Tensor& dy, const DeltaGrads& out)
      : head_(in, index),
        first_(index / head_.heads * head_.tokens * head_.heads + index % head_.heads),
        dy_(dy.as<T>() + first_ * head_.width),
        out_(out) {
    const std::int64_t size = head_.size(), padded = head_.padded;
    checkpoints_ = thread_scratch<T, Reverse>((head_.chunks() + checkpoint_distance + 2) * size +
                                              (checkpoint_distance + 3) * padded + 4 * head_.keys);
    states_ = checkpoints_ + head_.chunks() * size;
    flow_ = states_ + (checkpoint_distance + 1) * size;
    errors_ = flow_ + size;
    upstream_ = errors_ + checkpoint_distance * padded;
    dvalue_ = upstream_ + padded;
    correction_ = dvalue_ + padded;
    decay_ = correction_ + padded;
    dq_ = decay_ + head_.keys;
    dk_ = dq_ + head_.keys;
    dg_ = dk_ + head_.keys;
    std::fill_n(flow_, size, T{0});
    std::fill_n(upstream_, padded, T{0});
  }

  void run() {
    const std::int64_t size = head_.size();
    std::fill_n(checkpoints_, size, T{0});
    for (std::int64_t t = 0; t < (head_.chunks() - 1) * checkpoint_distance; ++t) {
      T* from = checkpoints_ + t / checkpoint_distance * size;
      step(t, t % checkpoint_distance == 0 ? from : states_,
           (t + 1) % checkpoint_distance == 0 ? from + size : states_);
    }
    for (std::int64_t chunk = head_.chunks() - 1; chunk >= 0; --chunk) {
      const std::int64_t begin = chunk * checkpoint_distance;
      const std::int64_t end = std::min(head_.tokens, begin + checkpoint_distance);
      std::copy_n(checkpoints_ + chunk * size, size, states_);
      for (std::int64_t t = begin; t < end; ++t)
        step(t, states_ + (t - begin) * size, states_ + (t - begin + 1) * size);
      for (std::int64_t t = end - 1; t >= begin; --t) reverse_token(t, states_ + (t - begin) * size);
    }
  }

 private:
  T* error(std::int64_t t) { return errors_ + t % checkpoint_distance * head_.padded; }
  void step(std::int64_t t, const T* before, T* next) {
    head_.load_decay(t, decay_);
    advance<T>(head_, t, decay_, before, next, error(t), nullptr);
  }

  /// Turns the gradient of the state after token t into that of the state before it; `before` is S_{t-1}.
  void reverse_token(std::int64_t t, const T* before) {
    head_.load_decay(t, decay_);
    std::copy_n(dy_ + t * head_.heads * head_.width, head_.width, upstream_);
    const T dbeta = receive_output(t);
    const Pack<T> along = dot_along(error(t), upstream_);
    pass_rows(t, before, head_.scale * head_.strength(t) * sum_of<T>(along));
    write(t, dbeta);
  }

  Pack<T> dot_along(const T* a, const T* b) const {
    Pack<T> sum = Pack<T>::Zero();
    for (std::int64_t block = 0; block < head_.padded; block += lanes<T>) sum += pack(a + block) * pack(b + block);
    return sum;
  }

  /// dS += scale q dy^T; dv from du = dS^T k; returns dbeta.
  T receive_output(std::int64_t t) {
    const T *q = head_.query(t), *k = head_.key(t), strength = head_.strength(t);
    Pack<T> dbeta = Pack<T>::Zero();
    for (std::int64_t block = 0; block < head_.padded; block += lanes<T>) {
      const Pack<T> dy = head_.scale * pack(upstream_ + block);
      Pack<T> du = Pack<T>::Zero();
      for (std::int64_t i = 0; i < head_.keys; ++i) {
        const Pack<T> ds = pack(flow_ + i * head_.padded + block) + q[i] * dy;
        pack(flow_ + i * head_.padded + block) = ds;
        du += k[i] * ds;
      }
      dbeta += du * pack(error(t) + block);
      pack(dvalue_ + block) = strength * du;
    }
    if (head_.beta) {
      std::copy_n(dvalue_, head_.padded, correction_);
    } else {
      std::fill_n(correction_, head_.padded, T{0});
    }
    return sum_of<T>(dbeta);
  }

  /// Row by row: dq, dk, dg, and the gradient of the state before the token. `answer` is scale u . dy.
  void pass_rows(std::int64_t t, const T* before, T answer) {
    const T *k = head_.key(t), strength = head_.strength(t);
    for (std::int64_t i = 0; i < head_.keys; ++i) {
      Pack<T> dq = Pack<T>::Zero(), dk = Pack<T>::Zero(), dg = Pack<T>::Zero();
      for (std::int64_t block = 0; block < head_.padded; block += lanes<T>) {
        const std::int64_t at = i * head_.padded + block;
        const Pack<T> faded = decay_[i] * pack(before + at), flow = pack(flow_ + at);
        const Pack<T> correction = pack(correction_ + block), ds = flow - k[i] * correction;
        dq += faded * pack(upstream_ + block);
        dk += strength * flow * pack(error(t) + block) - faded * correction;
        dg += ds * faded;
        pack(flow_ + at) = decay_[i] * ds;
      }
      dq_[i] = head_.scale * sum_of<T>(dq) + k[i] * answer;
      dk_[i] = sum_of<T>(dk);
      dg_[i] = sum_of<T>(dg);
    }
  }

  void write(std::int64_t t, T dbeta) const {
    const std::int64_t row = first_ + t * head_.heads;
    put_numbers(out_.v, row, dvalue_, head_.width);
    put_numbers(out_.q, row, dq_, head_.keys);
    put_numbers(out_.k, row, dk_, head_.keys);
    put_numbers(out_.beta, row, &dbeta, 1);
    if (head_.by_channel) {
      put_numbers(out_.g, row, dg_, head_.keys);
    } else if (out_.g.wanted()) {
      T sum = 0;
      for (std::int64_t i = 0; i < head_.keys; ++i) sum += dg_[i];
      put_numbers(out_.g, row, &sum, 1);
    }
  }

  const Head<T> head_;
  const std::int64_t first_;  // of the rows [B,T,H]
  const T* dy_;
  const DeltaGrads& out_;
  T *checkpoints_, *states_, *flow_, *errors_, *upstream_, *dvalue_, *correction_, *decay_, *dq_, *dk_, *dg_;
};

std::int64_t heads_of(const DeltaInputs& in) { return in.q.shape[0] * in.q.shape[2]; }

}  // namespace

void CpuBackend::delta_scan(const DeltaInputs& in, const Tensor& y, const Tensor& state, bool resume) {
  with_type(y, [&]<class T>(T) {
    pool_.for_each(heads_of(in), [&](std::int64_t i) {
      const Head<T> head(in, i);
      T* out = y.as<T>() + (i / head.heads * head.tokens * head.heads + i % head.heads) * head.width;
      scan_head(head, out, state.defined() ? state.as<T>() + i * head.keys * head.width : nullptr, resume);
    });
  });
}

void CpuBackend::delta_scan_backward(const DeltaInputs& in, const Tensor& dy, const Tensor&, const DeltaGrads& out) {
  with_type(dy, [&]<class T>(T) {
    pool_.for_each(heads_of(in), [&](std::int64_t i) { HeadReverse<T>(in, i, dy, out).run(); });
  });
}

}  // namespace afterglow
