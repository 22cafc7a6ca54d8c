// The iterations themselves, written once for every arithmetic: residuals, gradients and reversal watch the same steps.
#pragma once
#include <cmath>
#include <vector>

#include "core/analysis/solvers/solvers.h"

namespace afterglow::steps {

template <class Number>
using Vector = std::vector<Number>;

template <class Number>
Vector<Number> converted(std::span<const double> values) {
  return {values.begin(), values.end()};
}

/// H + λI in an arithmetic: operands of products are rounded, sums are not.
template <class Number>
class Matrix {
 public:
  Matrix(const RidgeProblem& problem, Arithmetic arithmetic)
      : n_(problem.q.size()),
        ridge_(static_cast<Number>(problem.ridge)),
        arithmetic_(arithmetic),
        cells_(converted<Number>(problem.H)),
        operand_(n_) {
    for (Number& cell : cells_) cell = rounded(cell, arithmetic);
  }
  std::size_t size() const { return n_; }
  Number operand(Number x) const { return rounded(x, arithmetic_); }
  Number cell(std::size_t i, std::size_t j) const { return cells_[i * n_ + j] + (i == j ? ridge_ : Number(0)); }

  /// Column by column, which is row by row as H is symmetric: sums run along the vector, so that they vectorise.
  Vector<Number> times(const Vector<Number>& x) const {
    Vector<Number> y(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      operand_[i] = operand(x[i]);
      y[i] = ridge_ * x[i];
    }
    for (std::size_t j = 0; j < n_; ++j) {
      const Number factor = operand_[j];
      const Number* column = cells_.data() + j * n_;
      for (std::size_t i = 0; i < n_; ++i) y[i] += column[i] * factor;
    }
    return y;
  }
  Number dot(const Vector<Number>& a, const Vector<Number>& b) const {
    Number sum = 0;
    for (std::size_t i = 0; i < n_; ++i) sum += operand(a[i]) * operand(b[i]);
    return sum;
  }

 private:
  std::size_t n_;
  Number ridge_;
  Arithmetic arithmetic_;
  Vector<Number> cells_;
  mutable Vector<Number> operand_;
};

template <class Number>
Vector<Number> omegas(double mu, double L, int iterations) {
  const Number rho = static_cast<Number>((L - mu) / (L + mu));
  Vector<Number> omega{2};
  for (int i = 1; i <= iterations; ++i) omega.push_back(4 / (4 - rho * rho * omega.back()));
  return omega;
}

/// Calls see(x_i) for i = 0..iterations.
template <class Number, class See>
void chebyshev(const Matrix<Number>& A, const RidgeProblem& p, int iterations, const See& see) {
  const Vector<Number> q = converted<Number>(p.q), omega = omegas<Number>(p.mu, p.L, iterations);
  const Number step = static_cast<Number>(2 / (p.L + p.mu));
  Vector<Number> before(q.size(), 0), now = q;
  for (Number& x : now) x *= step;
  see(now);
  for (int i = 1; i <= iterations; ++i) {
    const Vector<Number> product = A.times(now);
    const Number w = omega[static_cast<std::size_t>(i)];
    for (std::size_t j = 0; j < q.size(); ++j) {
      const Number next = now[j] - step * w * (product[j] - q[j]) + (w - 1) * (now[j] - before[j]);
      before[j] = now[j];
      now[j] = next;
    }
    see(now);
  }
}

template <class Number, class See>
void gradient_descent(const Matrix<Number>& A, const RidgeProblem& p, int iterations, const See& see) {
  const Vector<Number> q = converted<Number>(p.q);
  const Number step = static_cast<Number>(2 / (p.L + p.mu));
  Vector<Number> x = q;
  for (Number& value : x) value *= step;
  see(x);
  for (int i = 1; i <= iterations; ++i) {
    const Vector<Number> product = A.times(x);
    for (std::size_t j = 0; j < q.size(); ++j) x[j] -= step * (product[j] - q[j]);
    see(x);
  }
}

template <class Number, class See>
void nesterov(const Matrix<Number>& A, const RidgeProblem& p, int iterations, const See& see) {
  const Vector<Number> q = converted<Number>(p.q);
  const double root = std::sqrt(p.L / p.mu);
  const Number step = static_cast<Number>(1 / p.L), momentum = static_cast<Number>((root - 1) / (root + 1));
  Vector<Number> before(q.size(), 0), now = q, ahead(q.size());
  for (Number& x : now) x *= step;
  see(now);
  for (int i = 1; i <= iterations; ++i) {
    for (std::size_t j = 0; j < q.size(); ++j) ahead[j] = now[j] + momentum * (now[j] - before[j]);
    const Vector<Number> product = A.times(ahead);
    before = now;
    for (std::size_t j = 0; j < q.size(); ++j) now[j] = ahead[j] - step * (product[j] - q[j]);
    see(now);
  }
}

/// State of conjugate gradient before a step, and what the step divides by.
template <class Number>
struct ConjugateStep {
  Vector<Number> p, r, Ap;
  Number rr, pAp, alpha, beta;  ///< x += alpha p, r' = r - alpha Ap, p' = r' + beta p, beta = r'r'/rr
};

/// Stops moving when nothing is left to divide by: the solution is exact then. Calls step_taken for each step.
template <class Number, class See, class Taken>
void conjugate_gradient(const Matrix<Number>& A, const RidgeProblem& problem, int iterations, const See& see,
                        const Taken& step_taken) {
  ConjugateStep<Number> s;
  s.r = s.p = converted<Number>(problem.q);
  s.rr = A.dot(s.r, s.r);
  Vector<Number> x(s.r.size(), 0);
  see(x);
  for (int i = 1; i <= iterations; ++i) {
    s.Ap = A.times(s.p);
    s.pAp = A.dot(s.p, s.Ap);
    if (s.rr != Number(0) && s.pAp != Number(0)) {
      s.alpha = s.rr / s.pAp;
      Vector<Number> r = s.r;
      for (std::size_t j = 0; j < x.size(); ++j) {
        x[j] += s.alpha * s.p[j];
        r[j] -= s.alpha * s.Ap[j];
      }
      const Number rr = A.dot(r, r);
      s.beta = rr / s.rr;
      step_taken(s);
      for (std::size_t j = 0; j < x.size(); ++j) s.p[j] = r[j] + s.beta * s.p[j];
      s.r = std::move(r);
      s.rr = rr;
    }
    see(x);
  }
}

/// Empty when a pivot is not positive.
template <class Number>
Vector<Number> cholesky(const Matrix<Number>& A, const Vector<Number>& q) {
  const std::size_t n = A.size();
  Vector<Number> L(n * n, 0), operand(n * n, 0), x = q;
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i < n; ++i) {
      Number sum = A.cell(i, j);
      for (std::size_t k = 0; k < j; ++k) sum -= operand[i * n + k] * operand[j * n + k];
      if (i == j && !(sum > 0)) return {};
      L[i * n + j] = i == j ? std::sqrt(sum) : sum / L[j * n + j];
      operand[i * n + j] = A.operand(L[i * n + j]);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= operand[i * n + k] * A.operand(x[k]);
    x[i] /= L[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= operand[k * n + i] * A.operand(x[k]);
    x[i] /= L[i * n + i];
  }
  return x;
}

/// Any solver; Cholesky shows its one answer.
template <class Number, class See>
void solve(SolverKind kind, const Matrix<Number>& A, const RidgeProblem& problem, int iterations, const See& see) {
  if (kind == SolverKind::chebyshev) return chebyshev(A, problem, iterations, see);
  if (kind == SolverKind::gradient_descent) return gradient_descent(A, problem, iterations, see);
  if (kind == SolverKind::nesterov) return nesterov(A, problem, iterations, see);
  if (kind == SolverKind::conjugate_gradient)
    return conjugate_gradient(A, problem, iterations, see, [](const ConjugateStep<Number>&) {});
  see(cholesky(A, converted<Number>(problem.q)));
}

}  // namespace afterglow::steps
