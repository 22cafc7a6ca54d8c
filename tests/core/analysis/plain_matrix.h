// Matrices by plain loops, to check the analyses against something that shares no code with them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/koopman/ska_head.h"
#include "core/random/random.h"

namespace afterglow {

struct PlainMatrix {
  int rows = 0, columns = 0;
  std::vector<double> values;

  PlainMatrix() = default;
  PlainMatrix(int m, int n) : rows(m), columns(n), values(static_cast<std::size_t>(m) * n, 0.0) {}
  PlainMatrix(int m, int n, std::span<const double> numbers)
      : rows(m), columns(n), values(numbers.begin(), numbers.end()) {}
  double& operator()(int i, int j) { return values[static_cast<std::size_t>(i) * columns + j]; }
  double operator()(int i, int j) const { return values[static_cast<std::size_t>(i) * columns + j]; }
};

inline PlainMatrix identity(int n) {
  PlainMatrix result(n, n);
  for (int i = 0; i < n; ++i) result(i, i) = 1.0;
  return result;
}

inline PlainMatrix operator*(const PlainMatrix& a, const PlainMatrix& b) {
  PlainMatrix result(a.rows, b.columns);
  for (int i = 0; i < a.rows; ++i) {
    for (int k = 0; k < a.columns; ++k) {
      for (int j = 0; j < b.columns; ++j) result(i, j) += a(i, k) * b(k, j);
    }
  }
  return result;
}

inline PlainMatrix operator*(double factor, PlainMatrix a) {
  for (double& value : a.values) value *= factor;
  return a;
}

inline PlainMatrix operator+(PlainMatrix a, const PlainMatrix& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

inline PlainMatrix operator-(const PlainMatrix& a, const PlainMatrix& b) { return a + (-1.0) * b; }

inline PlainMatrix transposed(const PlainMatrix& a) {
  PlainMatrix result(a.columns, a.rows);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.columns; ++j) result(j, i) = a(i, j);
  }
  return result;
}

inline PlainMatrix power_of(const PlainMatrix& a, int k) {
  PlainMatrix result = identity(a.rows);
  for (int i = 0; i < k; ++i) result = result * a;
  return result;
}

/// Gauss-Jordan with row exchanges.
inline PlainMatrix inverse_of(PlainMatrix a) {
  const int n = a.rows;
  PlainMatrix result = identity(n);
  for (int column = 0; column < n; ++column) {
    int pivot = column;
    for (int i = column + 1; i < n; ++i) {
      if (std::abs(a(i, column)) > std::abs(a(pivot, column))) pivot = i;
    }
    const double factor = 1.0 / a(pivot, column);
    for (int j = 0; j < n; ++j) {
      std::swap(a(column, j), a(pivot, j));
      std::swap(result(column, j), result(pivot, j));
      a(column, j) *= factor;
      result(column, j) *= factor;
    }
    for (int i = 0; i < n; ++i) {
      if (i == column) continue;
      const double share = a(i, column);
      for (int j = 0; j < n; ++j) {
        a(i, j) -= share * a(column, j);
        result(i, j) -= share * result(column, j);
      }
    }
  }
  return result;
}

inline PlainMatrix cholesky_of(const PlainMatrix& a) {
  PlainMatrix L(a.rows, a.rows);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j <= i; ++j) {
      double rest = a(i, j);
      for (int k = 0; k < j; ++k) rest -= L(i, k) * L(j, k);
      L(i, j) = i == j ? std::sqrt(rest) : rest / L(j, j);
    }
  }
  return L;
}

/// Descending, by one-sided Jacobi rotations.
inline std::vector<double> plain_singular_values(PlainMatrix a) {
  if (a.rows < a.columns) a = transposed(a);
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (int p = 0; p < a.columns; ++p) {
      for (int q = p + 1; q < a.columns; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (int i = 0; i < a.rows; ++i) {
          pp += a(i, p) * a(i, p);
          qq += a(i, q) * a(i, q);
          pq += a(i, p) * a(i, q);
        }
        if (pq == 0.0) continue;
        const double angle = 0.5 * std::atan2(2 * pq, pp - qq), c = std::cos(angle), s = std::sin(angle);
        for (int i = 0; i < a.rows; ++i) {
          const double x = a(i, p), y = a(i, q);
          a(i, p) = c * x + s * y;
          a(i, q) = c * y - s * x;
        }
      }
    }
  }
  std::vector<double> result;
  for (int j = 0; j < a.columns; ++j) {
    double sum = 0;
    for (int i = 0; i < a.rows; ++i) sum += a(i, j) * a(i, j);
    result.push_back(std::sqrt(sum));
  }
  std::sort(result.rbegin(), result.rend());
  return result;
}

inline double plain_norm(const PlainMatrix& a) { return plain_singular_values(a).front(); }

inline double length_of(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

inline PlainMatrix random_matrix(Random& random, int rows, int columns) {
  PlainMatrix result(rows, columns);
  for (double& value : result.values) value = random.normal();
  return result;
}

inline PlainMatrix random_symmetric(Random& random, int n) {
  const PlainMatrix a = random_matrix(random, n, n);
  return a + transposed(a);
}

/// Columns orthonormal, by Gram-Schmidt twice.
inline PlainMatrix random_orthogonal(Random& random, int n) {
  PlainMatrix q = random_matrix(random, n, n);
  for (int j = 0; j < n; ++j) {
    for (int pass = 0; pass < 2; ++pass) {
      for (int k = 0; k < j; ++k) {
        double dot = 0;
        for (int i = 0; i < n; ++i) dot += q(i, j) * q(i, k);
        for (int i = 0; i < n; ++i) q(i, j) -= dot * q(i, k);
      }
    }
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += q(i, j) * q(i, j);
    for (int i = 0; i < n; ++i) q(i, j) /= std::sqrt(sum);
  }
  return q;
}

/// A symmetric matrix with the given eigenvalues.
inline PlainMatrix with_spectrum(Random& random, const std::vector<double>& eigenvalues) {
  const int n = static_cast<int>(eigenvalues.size());
  const PlainMatrix q = random_orthogonal(random, n);
  PlainMatrix scaled = q;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) scaled(i, j) *= eigenvalues[static_cast<std::size_t>(j)];
  }
  return scaled * transposed(q);
}

/// The statistics of one sequence of random keys that follow each other, as a layer would gather them, keys no longer
/// than 1.
struct RandomHead {
  PlainMatrix keys, values, G, M, C;
  SkaHead head;

  RandomHead(Random& random, int tokens, int r, int P, double memory = 0.8) : keys(tokens, r), G(r, r), M(r, r) {
    const PlainMatrix noise = random_matrix(random, tokens, r);
    const PlainMatrix turn = random_orthogonal(random, r);
    double longest = 0;
    for (int t = 0; t < tokens; ++t) {
      for (int i = 0; i < r; ++i) {
        keys(t, i) = noise(t, i);
        for (int j = 0; t > 0 && j < r; ++j) keys(t, i) += memory * turn(i, j) * keys(t - 1, j);
      }
      longest =
          std::max(longest, length_of({&keys.values[static_cast<std::size_t>(t) * r], static_cast<std::size_t>(r)}));
    }
    keys = (1.0 / longest) * keys;
    values = random_matrix(random, tokens, P);
    G = transposed(keys) * keys;
    C = transposed(values) * keys;
    for (int t = 0; t + 1 < tokens; ++t) {
      for (int i = 0; i < r; ++i) {
        for (int j = 0; j < r; ++j) M(i, j) += keys(t + 1, i) * keys(t, j);
      }
    }
    head.rank = r;
    head.value_width = P;
    refer();
  }
  RandomHead(const RandomHead&) = delete;
  RandomHead& operator=(const RandomHead&) = delete;
  /// After a change of the matrices.
  void refer() {
    head.G = G.values;
    head.M = M.values;
    head.C = C.values;
  }
};

}  // namespace afterglow
