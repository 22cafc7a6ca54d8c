// The core of the Koopman MLP on the CPU: z = conj(lambda) u on pairs of u = silu(lifted), times sigmoid(gate). Threads
// take blocks of columns, so that each sums the gradients of its gamma and omega over all rows in a fixed order.
#include <Eigen/Core>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/mixed_modes.h"
#include "core/backend/scratch.h"

namespace afterglow {
namespace {

constexpr int block_columns = 32, block_pairs = block_columns / 2;

template <class T>
using Row = Eigen::Array<T, 1, Eigen::Dynamic, Eigen::RowMajor, 1, block_columns>;
template <class T>
using Half = Eigen::Array<T, 1, Eigen::Dynamic, Eigen::RowMajor, 1, block_pairs>;
template <class T>
using RowMap = Eigen::Map<Eigen::Array<T, 1, Eigen::Dynamic>>;
template <class T>
using PairMap = Eigen::Map<Eigen::Array<T, 1, Eigen::Dynamic>, Eigen::Unaligned, Eigen::InnerStride<2>>;

template <class T>
PairMap<T> evens(Row<T>& row) {
  return {row.data(), row.size() / 2};
}
template <class T>
PairMap<T> odds(Row<T>& row) {
  return {row.data() + 1, row.size() / 2};
}

template <class T>
Row<T> sigmoid(const Row<T>& x) {
  return (T{1} + (-x).exp()).inverse();
}

/// The eigenvalues of a block of pairs after the division by max(1, modulus).
template <class T>
struct Rotations {
  Half<T> real, imaginary, divisor;
  Rotations(const Tensor& gamma, const Tensor& omega, std::int64_t first, std::int64_t pairs)
      : real(RowMap<T>(gamma.as<T>() + first, pairs)), imaginary(RowMap<T>(omega.as<T>() + first, pairs)) {
    divisor = (real.square() + imaginary.square()).sqrt().max(T{1});
    real /= divisor;
    imaginary /= divisor;
  }
};

template <class T>
RowMap<T> part(const Tensor& x, std::int64_t row, std::int64_t column, std::int64_t count) {
  return {x.as<T>() + row * x.row_stride + column, count};
}

template <class T, class Values>
void put(const Grad& grad, std::int64_t row, std::int64_t column, const Values& values) {
  if (grad.wanted()) put_into(part<T>(grad.tensor, row, column, values.size()), values, grad.accumulate);
}

/// d (raw / modulus) for those outside the unit disk, d raw for the others.
template <class T>
void through_division(const Rotations<T>& lambda, Half<T>& dreal, Half<T>& dimaginary) {
  for (std::int64_t i = 0; i < dreal.size(); ++i) {
    if (lambda.divisor[i] <= T{1}) continue;
    const T along = lambda.real[i] * dreal[i] + lambda.imaginary[i] * dimaginary[i];
    dreal[i] = (dreal[i] - along * lambda.real[i]) / lambda.divisor[i];
    dimaginary[i] = (dimaginary[i] - along * lambda.imaginary[i]) / lambda.divisor[i];
  }
}

template <class T>
Row<T> rotate(const Rotations<T>& lambda, Row<T>& u) {
  Row<T> z(u.size());
  evens<T>(z) = lambda.real * evens<T>(u) + lambda.imaginary * odds<T>(u);
  odds<T>(z) = lambda.real * odds<T>(u) - lambda.imaginary * evens<T>(u);
  return z;
}

struct Columns {
  std::int64_t first, count;
};

template <class T>
void forward_block(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate, const Tensor& z,
                   const Columns& c) {
  const Rotations<T> lambda(gamma, omega, c.first / 2, c.count / 2);
  for (std::int64_t row = 0; row < lifted.rows(); ++row) {
    const Row<T> x = part<T>(lifted, row, c.first, c.count);
    Row<T> u = x * sigmoid<T>(x);
    Row<T> value = rotate<T>(lambda, u);
    if (gate.defined()) value *= sigmoid<T>(part<T>(gate, row, c.first, c.count));
    part<T>(z, row, c.first, c.count) = value;
  }
}

struct ModeGrads {
  Grad lifted, gamma, omega, gate;
};

template <class T>
void backward_block(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate,
                    const Tensor& dz, const ModeGrads& out, const Columns& c) {
  const Rotations<T> lambda(gamma, omega, c.first / 2, c.count / 2);
  Half<T> dreal = Half<T>::Zero(c.count / 2), dimaginary = Half<T>::Zero(c.count / 2);
  for (std::int64_t row = 0; row < lifted.rows(); ++row) {
    const Row<T> x = part<T>(lifted, row, c.first, c.count), open = sigmoid<T>(x);
    Row<T> u = x * open, dvalue = part<T>(dz, row, c.first, c.count), du(c.count);
    if (gate.defined()) {
      const Row<T> g = sigmoid<T>(part<T>(gate, row, c.first, c.count));
      put<T>(out.gate, row, c.first, (dvalue * rotate<T>(lambda, u) * g * (T{1} - g)).eval());
      dvalue *= g;
    }
    dreal += evens<T>(dvalue) * evens<T>(u) + odds<T>(dvalue) * odds<T>(u);
    dimaginary += evens<T>(dvalue) * odds<T>(u) - odds<T>(dvalue) * evens<T>(u);
    evens<T>(du) = lambda.real * evens<T>(dvalue) - lambda.imaginary * odds<T>(dvalue);
    odds<T>(du) = lambda.real * odds<T>(dvalue) + lambda.imaginary * evens<T>(dvalue);
    put<T>(out.lifted, row, c.first, (du * (open + u * (T{1} - open))).eval());
  }
  through_division(lambda, dreal, dimaginary);
  put<T>(out.gamma, 0, c.first / 2, dreal);
  put<T>(out.omega, 0, c.first / 2, dimaginary);
}

template <class Body>
void for_column_blocks(ThreadPool& pool, std::int64_t columns, const Body& body) {
  pool.for_ranges(columns, block_columns, [&](std::int64_t begin, std::int64_t end) {
    body(Columns{begin, end - begin});
  });
}

/// One thread alone.
struct Alone {
  template <class Body>
  void each(int n, int m, const Body& body) const {
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < m; ++j) body(i, j);
    }
  }
  void wait() const {}
};

/// Calls body(block, place of its matrix, place of its first pair, scratch) for the blocks of matrices [n,b,b].
template <class T, class Body>
void for_mixed_blocks(ThreadPool& pool, const Tensor& matrices, const Body& body) {
  struct Mixed {};
  const std::int64_t b = matrices.shape[2];
  pool.for_each(matrices.shape[0], [&](std::int64_t i) {
    body(i * b * b, i * b / 2, thread_scratch<T, Mixed>(mixed_scratch(static_cast<int>(b))));
  });
}

}  // namespace

void CpuBackend::mixed_modes(const Tensor& A, const Tensor& gamma, const Tensor& omega, const Tensor& Q,
                             const Tensor& W) {
  with_type(A, [&]<class T>(T) {
    for_mixed_blocks<T>(pool_, A, [&](std::int64_t at, std::int64_t pair, T* memory) {
      mix_block(Alone{}, static_cast<int>(A.shape[2]), A.as<T>() + at, gamma.as<T>() + pair, omega.as<T>() + pair,
                Q.as<T>() + at, W.as<T>() + at, memory);
    });
  });
}

void CpuBackend::mixed_modes_backward(const Tensor& gamma, const Tensor& omega, const Tensor& Q, const Tensor& dW,
                                      const Grad& dA, const Grad& dgamma, const Grad& domega) {
  with_type(Q, [&]<class T>(T) {
    const auto put_at = [](const Grad& grad, std::int64_t place, T value) {
      if (grad.wanted()) grad.tensor.as<T>()[place] = value + (grad.accumulate ? grad.tensor.as<T>()[place] : T{0});
    };
    for_mixed_blocks<T>(pool_, Q, [&](std::int64_t at, std::int64_t pair, T* memory) {
      mix_block_backward(
          Alone{}, static_cast<int>(Q.shape[2]), gamma.as<T>() + pair, omega.as<T>() + pair, Q.as<T>() + at,
          dW.as<T>() + at, memory,
          [&](int k, T real, T imaginary) {
            put_at(dgamma, pair + k, real);
            put_at(domega, pair + k, imaginary);
          },
          [&](int place, T value) { put_at(dA, at + place, value); });
    });
  });
}

void CpuBackend::koopman_modes(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate,
                               const Tensor& z, const Tensor& /*rounded*/) {
  with_type(z, [&]<class T>(T) {
    for_column_blocks(pool_, z.columns(),
                      [&](const Columns& c) { forward_block<T>(lifted, gamma, omega, gate, z, c); });
  });
}

void CpuBackend::koopman_modes_backward(const Tensor& lifted, const Tensor& gamma, const Tensor& omega,
                                        const Tensor& gate, const Tensor& dz, const Grad& dlifted, const Grad& dgamma,
                                        const Grad& domega, const Grad& dgate) {
  const ModeGrads out{dlifted, dgamma, domega, dgate};
  with_type(dz, [&]<class T>(T) {
    for_column_blocks(pool_, dz.columns(),
                      [&](const Columns& c) { backward_block<T>(lifted, gamma, omega, gate, dz, out, c); });
  });
}

}  // namespace afterglow
