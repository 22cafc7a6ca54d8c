// Random problems, one layer, one network.
#include "core/studies/solver_studies.h"

#include <Eigen/QR>
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <span>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/solvers/gradient_check.h"
#include "core/analysis/solvers/kalman.h"
#include "core/backend/parallel.h"
#include "core/random/random.h"
#include "core/studies/ridge_network.h"

namespace afterglow {
namespace {

constexpr int max_counts = 6;

/// One head's random keys or queries, unit rows [T*D].
std::vector<double> unit_rows(Random& random, int tokens, int width) {
  RowMajor rows(tokens, width);
  for (int t = 0; t < tokens; ++t) {
    for (int i = 0; i < width; ++i) rows(t, i) = random.normal();
    rows.row(t).normalize();
  }
  return stored(rows);
}

std::vector<int> iteration_counts(int most) {
  std::vector<int> counts;
  for (int i = 1; i <= max_counts; ++i) counts.push_back(std::max(1, most * i / max_counts));
  return counts;
}

struct Route {
  const char* name;
  GradientRoute route;
};
constexpr Route routes[] = {{"implicit", GradientRoute::implicit}, {"unrolled", GradientRoute::unrolled}};

/// The curves of one solver from a gradient for (solver, route, iterations, arithmetic), all numbers in one vector.
template <class Gradient>
std::vector<StudyCurve> differences(SolverKind solver, int max_iterations, Arithmetic arithmetic,
                                    const StudyProgress& progress, const Gradient& gradient) {
  const std::vector<double> exact = gradient(SolverKind::cholesky, GradientRoute::implicit, 0, Arithmetic::fp64);
  const double length = frobenius_norm(exact);
  std::vector<StudyCurve> curves;
  double done = 0;
  for (const Route& way : routes) {
    StudyCurve& curve = curves.emplace_back();
    curve.name = std::string(name_of(solver)) + ", " + way.name;
    curve.solver = solver;
    curve.is_dashed = way.route == GradientRoute::unrolled;
    for (const int count : iteration_counts(max_iterations)) {
      std::vector<double> rest = gradient(solver, way.route, count, arithmetic);
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= exact[i];
      curve.x.push_back(count);
      curve.y.push_back(frobenius_norm(rest) / length);
      progress(++done / (2 * max_counts));
    }
  }
  return curves;
}

}  // namespace

StudySize full_size(bool network) {
  return network ? StudySize{1, 2048, 2, 128, 5, 5000, 30} : StudySize{8, 2048, 8, 128, 5, 5000, 30};
}

std::vector<double> worst_residuals(const StudySize& size, SolverKind solver, double strength, Arithmetic arithmetic,
                                    std::uint64_t seed, const StudyProgress& progress) {
  const auto width = static_cast<std::size_t>(size.width);
  const int sequences = size.batch * size.heads;
  std::vector<std::vector<double>> worst(static_cast<std::size_t>(sequences));
  ThreadPool pool(0);
  // One batch entry at a time, for progress reports.
  for (int b = 0; b < size.batch; ++b) {
    pool.for_each(size.heads, [&](std::int64_t head) {
      const auto sequence = static_cast<std::size_t>(b * size.heads + head);
      Random random(seed, task_design_stream, sequence);
      const std::vector<double> k = unit_rows(random, size.tokens, size.width),
                                q = unit_rows(random, size.tokens, size.width);
      RowMajor H = RowMajor::Zero(size.width, size.width);
      std::vector<double>& most = worst[sequence];
      for (std::size_t at = 0; at < k.size(); at += width) {
        const Eigen::Map<const Eigen::VectorXd> key(k.data() + at, size.width);
        H += key * key.transpose();
        const RidgeProblem problem =
            bounded_problem(stored(H / H.norm()), {q.data() + at, q.data() + at + width}, strength);
        const std::vector<double> residuals = run_solver(solver, problem, size.iterations, arithmetic).residuals;
        most.resize(residuals.size(), 0.0);
        for (std::size_t i = 0; i < residuals.size(); ++i)
          if (!(residuals[i] <= most[i])) most[i] = residuals[i];
      }
    });
    progress((b + 1.0) / size.batch);
  }
  std::vector<double> result = worst.front();
  for (const std::vector<double>& own : worst) {
    for (std::size_t i = 0; i < own.size(); ++i)
      if (!(own[i] <= result[i])) result[i] = own[i];
  }
  return result;
}

namespace {

constexpr int strengths_in_a_decade = 4, strengths = 3 * strengths_in_a_decade + 1;  // from 10^-3 to 1
constexpr int asked = 8;                                                             // number of keys and queries

double strength_at(int s) { return std::pow(10.0, static_cast<double>(s + 1 - strengths) / strengths_in_a_decade); }

/// H of a sequence of keys divided by its norm, U by the same.
struct Stored {
  std::vector<double> k, v, q;
  RowMajor H, U;
};

std::vector<Stored> stored_sequences(const StudySize& size, std::uint64_t seed) {
  std::vector<Stored> sequences;
  for (int i = 0; i < size.batch * size.heads; ++i) {
    Random random(seed, task_design_stream, static_cast<std::uint64_t>(i));
    const auto rows = [&] { return unit_rows(random, size.tokens, size.width); };
    Stored& of = sequences.emplace_back(Stored{rows(), rows(), rows(), {}, {}});
    const RowMajorView k(of.k.data(), size.tokens, size.width), v(of.v.data(), size.tokens, size.width);
    of.H = k.transpose() * k;
    of.U = v.transpose() * k / of.H.norm();
    of.H /= of.H.norm();
  }
  return sequences;
}

/// Row `i` of the query rows, which are spread over the sequence.
std::span<const double> query_row(const std::vector<double>& rows, const StudySize& size, int i) {
  const auto width = static_cast<std::size_t>(size.width);
  return std::span(rows).subspan(static_cast<std::size_t>(i * size.tokens / asked) * width, width);
}

/// |A x - b| for b of length 1.
double missed(const RowMajor& A, const std::vector<double>& x, std::span<const double> b) {
  const auto vector = [&](std::span<const double> of) {
    return Eigen::Map<const Eigen::VectorXd>(of.data(), A.rows());
  };
  return (A * vector(x) - vector(b)).norm();
}

}  // namespace

std::vector<StudyCurve> strength_study(const StudySize& size, Arithmetic arithmetic, std::uint64_t seed,
                                       const StudyProgress& progress) {
  const std::string steps = ", r = " + std::to_string(size.iterations);
  std::vector<StudyCurve> curves{{"true residual" + steps, SolverKind::chebyshev, false, {}, {}},
                                 {"true residual, exact", SolverKind::cholesky, true, {}, {}},
                                 {"recall error" + steps, SolverKind::chebyshev, false, {}, {}},
                                 {"recall error, exact", SolverKind::cholesky, true, {}, {}}};
  const std::vector<Stored> sequences = stored_sequences(size, seed);
  for (int s = 0; s < strengths; ++s) {
    const double strength = strength_at(s);
    std::array<double, 4> sums{};
    for (const Stored& of : sequences) {
      for (int i = 0; i < asked; ++i) {
        const auto row = [&](const std::vector<double>& rows) { return query_row(rows, size, i); };
        for (std::size_t way = 0; way < 2; ++way) {
          const auto solve = [&](std::span<const double> asks) {
            const RidgeProblem problem = bounded_problem(stored(of.H), {asks.begin(), asks.end()}, strength);
            return way == 0 ? run_solver(SolverKind::chebyshev, problem, size.iterations, arithmetic).solution
                            : run_solver(SolverKind::cholesky, problem, 0, Arithmetic::fp64).solution;
          };
          sums[way] += missed(of.H, solve(row(of.q)), row(of.q));
          sums[2 + way] += missed(of.U, solve(row(of.k)), row(of.v));
        }
      }
    }
    for (std::size_t c = 0; c < curves.size(); ++c) {
      curves[c].x.push_back(strength);
      curves[c].y.push_back(sums[c] / static_cast<double>(sequences.size() * asked));
    }
    progress((s + 1.0) / strengths);
  }
  return curves;
}

std::vector<StudyCurve> capacity_study(const StudySize& size, double strength, std::uint64_t seed) {
  constexpr double trusted = 1e-3, no_ridge = 1e-6;  // r of each pair, so that DeltaNet overwrites; λ
  constexpr FilterKind kinds[] = {FilterKind::gka, FilterKind::deltanet, FilterKind::kalman};
  std::vector<StudyCurve> curves;
  for (const FilterKind kind : kinds) curves.push_back({std::string(name_of(kind)), {}, false, {}, {}});
  curves.back() = {"exact optimum", {}, true, {}, {}};
  for (const double load : {0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0}) {
    StudySize loaded = size;
    loaded.tokens = std::max(1, static_cast<int>(load * size.width));
    const std::vector<double> noise(static_cast<std::size_t>(loaded.tokens), trusted);
    const std::vector<Stored> sequences = stored_sequences(loaded, seed);
    for (std::size_t c = 0; c < curves.size(); ++c) {
      const double ridge = kinds[c] == FilterKind::kalman ? no_ridge : 0;
      double sum = 0;
      for (const Stored& of : sequences)
        sum += finite_mean(run_filter(kinds[c], {loaded.tokens, of.k, of.k, of.v, noise, {}, strength, ridge}).recall);
      curves[c].x.push_back(load);
      curves[c].y.push_back(sum / static_cast<double>(sequences.size()));
    }
  }
  return curves;
}

std::vector<StudyCurve> divisor_study(const StudySize& size, Arithmetic arithmetic, std::uint64_t seed,
                                      const StudyProgress& progress) {
  constexpr SolverKind ours = SolverKind::chebyshev, other = SolverKind::conjugate_gradient;
  std::vector<StudyCurve> curves{{"conjugate gradient, largest", other, false, {}, {}},
                                 {"conjugate gradient, smallest", other, false, {}, {}},
                                 {"Chebyshev, upper bound", ours, true, {}, {}},
                                 {"Chebyshev, lower bound", ours, true, {}, {}}};
  const std::vector<Stored> sequences = stored_sequences(size, seed);
  for (int s = strengths - 1; s >= 0; --s) {
    const double strength = strength_at(s);
    double largest = 0, smallest = std::numeric_limits<double>::infinity();
    for (const Stored& of : sequences) {
      for (int i = 0; i < asked; ++i) {
        const std::span<const double> query = query_row(of.q, size, i);
        const RidgeProblem problem = bounded_problem(stored(of.H), {query.begin(), query.end()}, strength);
        for (const double divisor : reversal_divisors(other, problem, size.iterations, arithmetic)) {
          largest = std::max(largest, divisor);
          smallest = std::min(smallest, divisor);
        }
      }
    }
    const double values[] = {largest, smallest, 1, omega_limit(strength, 1 + strength) - 1};
    for (std::size_t c = 0; c < curves.size(); ++c) {
      curves[c].x.push_back(kappa_bound(strength));
      curves[c].y.push_back(values[c]);
    }
    progress(1 - static_cast<double>(s) / strengths);
  }
  return curves;
}

std::vector<StudyCurve> layer_gradient_study(const StudySize& size, SolverKind solver, double strength,
                                             Arithmetic arithmetic, std::uint64_t seed, const StudyProgress& progress) {
  ThreadPool pool(0);
  return differences(solver, size.iterations, arithmetic, progress,
                     [&](SolverKind kind, GradientRoute route, int iterations, Arithmetic in) {
                       const std::int64_t sequences = std::int64_t{size.batch} * size.heads;
                       std::vector<std::vector<double>> parts(static_cast<std::size_t>(sequences));
                       pool.for_each(sequences, [&](std::int64_t sequence) {
                         Random random(seed, task_design_stream, static_cast<std::uint64_t>(sequence));
                         const std::vector<double> k = unit_rows(random, size.tokens, size.width),
                                                   q = unit_rows(random, size.tokens, size.width),
                                                   up = unit_rows(random, size.tokens, size.width);
                         const SequenceGradient own = sequence_gradient({size.tokens, size.width, k, q, strength}, kind,
                                                                        route, iterations, in, up);
                         std::vector<double>& part = parts[static_cast<std::size_t>(sequence)];
                         part = own.queries;
                         part.insert(part.end(), own.keys.begin(), own.keys.end());
                       });
                       std::vector<double> all;
                       for (const std::vector<double>& part : parts) all.insert(all.end(), part.begin(), part.end());
                       return all;
                     });
}

std::vector<StudyCurve> network_gradient_study(const StudySize& size, SolverKind solver, double strength,
                                               Arithmetic arithmetic, std::uint64_t seed,
                                               const StudyProgress& progress) {
  RidgeNetwork network({size.layers, size.tokens, size.heads, size.width, size.vocabulary}, seed);
  return differences(solver, size.iterations, arithmetic, progress,
                     [&](SolverKind kind, GradientRoute route, int iterations, Arithmetic in) {
                       return network.gradient({kind, route, iterations, in, strength});
                     });
}

std::vector<StudyCurve> phase_study(std::uint64_t seed) {
  constexpr int places = 20, tokens = 4096;
  std::vector<StudyCurve> curves{{"|A| of k", {}, false, {}, {}}, {"|A| of |k|², lifted", {}, false, {}, {}}};
  const auto strength = [](const auto& k) {
    return std::abs(k.head(tokens - 1).dot(k.tail(tokens - 1))) / k.squaredNorm();
  };
  for (int place = 0; place <= places; ++place) {
    const double spread = std::numbers::pi * place / places;
    Random random(seed, task_design_stream);  // the same content at each place
    double content = 1, phase = 0;
    Eigen::VectorXcd k(tokens);
    for (std::complex<double>& value : k) {
      content = 0.9 * content + 0.1 * (1 + random.normal());
      phase += spread * (2 * random.uniform() - 1);
      value = content * std::polar(1.0, phase);
    }
    for (StudyCurve& curve : curves) curve.x.push_back(spread);
    curves[0].y.push_back(strength(k));
    curves[1].y.push_back(strength(k.cwiseAbs2().eval()));
  }
  return curves;
}

std::vector<StudyCurve> head_study(std::uint64_t seed) {
  constexpr int vocabulary = 256, answers = 64;
  StudyCurve measured{"measured", {}, false, {}, {}}, mean{"D/V", {}, true, {}, {}};
  Random random(seed, task_design_stream);
  const auto normal = [&] { return random.normal(); };
  const Eigen::MatrixXd W = Eigen::MatrixXd::NullaryExpr(vocabulary, vocabulary, normal);
  Eigen::MatrixXd gradient = Eigen::ArrayXXd::NullaryExpr(vocabulary, answers, normal).exp();
  gradient.array().rowwise() /= gradient.colwise().sum().array().eval();  // softmax, less the answer
  for (int a = 0; a < answers; ++a) gradient(static_cast<int>(random.uniform_int(vocabulary)), a) -= 1;
  for (int width = 4; width <= vocabulary; width *= 2) {
    const Eigen::MatrixXd turned = W.leftCols(width).householderQr().householderQ().transpose() * gradient;
    measured.x.push_back(width);
    measured.y.push_back(turned.topRows(width).squaredNorm() / gradient.squaredNorm());
    mean.y.push_back(static_cast<double>(width) / vocabulary);
  }
  mean.x = measured.x;
  return {measured, mean};
}

}  // namespace afterglow
