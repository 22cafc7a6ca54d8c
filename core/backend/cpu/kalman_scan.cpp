// The Kalman recursion on the CPU and its gradient; each (batch, head) is one task of the thread pool.
#include <Eigen/Core>
#include <algorithm>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/kalman.h"
#include "core/backend/scratch.h"

namespace afterglow {
namespace {

template <class T>
using RowMajor = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class T>
using Vector = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstVector = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>;

/// One head of one sequence.
template <class T>
struct Head {
  std::int64_t tokens, heads, keys, width, first;
  const T *q, *k, *v, *weights;
  T ridge;

  Head(const KalmanInputs& in, std::int64_t index)
      : tokens(in.q.shape[1]),
        heads(in.q.shape[2]),
        keys(in.q.shape[3]),
        width(in.v.shape[3]),
        first(index / heads * tokens * heads + index % heads),
        q(in.q.as<T>() + first * keys),
        k(in.k.as<T>() + first * keys),
        v(in.v.as<T>() + first * width),
        weights(in.weight.defined() ? in.weight.as<T>() + first : nullptr),
        ridge(static_cast<T>(in.ridge)) {}
  ConstVector<T> query(std::int64_t t) const { return {q + t * heads * keys, keys}; }
  ConstVector<T> key(std::int64_t t) const { return {k + t * heads * keys, keys}; }
  ConstVector<T> value(std::int64_t t) const { return {v + t * heads * width, width}; }
  T weight(std::int64_t t) const { return weights ? weights[t * heads] : T{1}; }
};

/// Phi, S and the temporaries of one step, in `size(head)` numbers.
template <class T>
struct Filter {
  RowMajor<T> covariance, memory;
  Vector<T> gain, error;

  static std::int64_t size(const Head<T>& h) { return (h.keys + 1) * (h.keys + h.width); }
  Filter(const Head<T>& h, T* room)
      : covariance(room, h.keys, h.keys),
        memory(room + h.keys * h.keys, h.keys, h.width),
        gain(room + h.keys * (h.keys + h.width), h.keys),
        error(room + h.keys * (h.keys + h.width) + h.keys, h.width) {
    covariance.setIdentity();
    covariance /= h.ridge;
    memory.setZero();
  }
  void update(const Head<T>& h, std::int64_t t) {
    const ConstVector<T> k = h.key(t);
    gain.noalias() = covariance * k;
    error = h.value(t);
    error.noalias() -= memory.transpose() * k;
    const T factor = h.weight(t) / (T{1} + h.weight(t) * k.dot(gain));
    covariance.noalias() -= (factor * gain) * gain.transpose();
    memory.noalias() += (factor * gain) * error.transpose();
  }
};

struct Forward {};
struct Reverse {};

template <class T>
void scan_head(const Head<T>& h, T* y, T* covariance, T* memory, bool resume) {
  Filter<T> filter(h, thread_scratch<T, Forward>(Filter<T>::size(h)));
  if (resume) {
    std::copy_n(covariance, h.keys * h.keys, filter.covariance.data());
    std::copy_n(memory, h.keys * h.width, filter.memory.data());
  }
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    filter.update(h, t);
    Vector<T>(y + t * h.heads * h.width, h.width).noalias() = filter.memory.transpose() * h.query(t);
  }
  if (covariance) std::copy_n(filter.covariance.data(), h.keys * h.keys, covariance);
  if (memory) std::copy_n(filter.memory.data(), h.keys * h.width, memory);
}

/// The formulas of kalman.h: forward for x_t and r_t, backward for the sums A and D.
template <class T>
void reverse_head(const KalmanInputs& in, std::int64_t index, const T* all_dy, const KalmanGrads& out) {
  const Head<T> h(in, index);
  const std::int64_t square = h.keys * h.keys, matrix = h.keys * h.width;
  T* room =
      thread_scratch<T, Reverse>(Filter<T>::size(h) + square + matrix + 2 * h.tokens * h.keys + 2 * h.keys + h.width);
  Filter<T> filter(h, room);
  RowMajor<T> A(room + Filter<T>::size(h), h.keys, h.keys), D(A.data() + square, h.keys, h.width);
  RowMajor<T> x(D.data() + matrix, h.tokens, h.keys), r(x.data() + h.tokens * h.keys, h.tokens, h.keys);
  Vector<T> dk(r.data() + h.tokens * h.keys, h.keys), transposed(dk.data() + h.keys, h.keys);
  Vector<T> dv(transposed.data() + h.keys, h.width);
  const auto dy = [&](std::int64_t t) { return ConstVector<T>(all_dy + (h.first + t * h.heads) * h.width, h.width); };
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    filter.update(h, t);
    x.row(t).transpose().noalias() = filter.covariance * h.query(t);
    r.row(t).transpose().noalias() = filter.memory * dy(t);
  }
  A.setZero();
  D.setZero();
  for (std::int64_t t = h.tokens - 1; t >= 0; --t) {
    const ConstVector<T> k = h.key(t);
    const std::int64_t row = h.first + t * h.heads;
    A.noalias() -= r.row(t).transpose() * x.row(t);
    D.noalias() += x.row(t).transpose() * dy(t).transpose();
    dk.noalias() = A * k;
    dk.noalias() += D * h.value(t);
    transposed.noalias() = A.transpose() * k;
    const T dweight = k.dot(dk);
    dk = h.weight(t) * (dk + transposed);
    dv.noalias() = D.transpose() * k;
    dv *= h.weight(t);
    put_numbers(out.q, row, r.data() + t * h.keys, h.keys);
    put_numbers(out.k, row, dk.data(), h.keys);
    put_numbers(out.v, row, dv.data(), h.width);
    put_numbers(out.weight, row, &dweight, 1);
  }
}

std::int64_t heads_of(const KalmanInputs& in) { return in.q.shape[0] * in.q.shape[2]; }

}  // namespace

void CpuBackend::kalman_scan(const KalmanInputs& in, const Tensor& y, const KalmanState& state, bool resume) {
  with_type(y, [&]<class T>(T) {
    pool_.for_each(heads_of(in), [&](std::int64_t i) {
      const Head<T> h(in, i);
      T* covariance = state.covariance.defined() ? state.covariance.as<T>() + i * h.keys * h.keys : nullptr;
      T* memory = state.memory.defined() ? state.memory.as<T>() + i * h.keys * h.width : nullptr;
      scan_head(h, y.as<T>() + h.first * h.width, covariance, memory, resume);
    });
  });
}

void CpuBackend::kalman_scan_backward(const KalmanInputs& in, const Tensor& dy, const Tensor&, const KalmanGrads& out) {
  with_type(dy, [&]<class T>(T) {
    pool_.for_each(heads_of(in), [&](std::int64_t i) { reverse_head<T>(in, i, dy.as<T>(), out); });
  });
}

}  // namespace afterglow
