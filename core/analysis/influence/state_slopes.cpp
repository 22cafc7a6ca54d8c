// Adjoint recurrences, token by token from the last one.
#include "core/analysis/influence/state_slopes.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {

using SlopeVector = Eigen::VectorXd;

template <class Count>
auto rows_of(const std::vector<double>& values, Count columns) {
  const auto width = static_cast<Eigen::Index>(columns);
  return RowMajorView(values.data(), static_cast<Eigen::Index>(values.size()) / width, width);
}

/// The numbers of token t in a tensor that has `rows` x `columns` of them for each token.
Eigen::Map<RowMajor> at_token(std::vector<double>& values, Eigen::Index token, Eigen::Index rows,
                              Eigen::Index columns) {
  return {values.data() + token * rows * columns, rows, columns};
}

double silu_slope(double x) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  return sigmoid * (1 + x * (1 - sigmoid));
}

}  // namespace

std::vector<double> part_of_rows(const std::vector<double>& rows, std::size_t tokens, std::size_t part,
                                 std::size_t parts) {
  const std::size_t columns = rows.size() / tokens, width = columns / parts;
  std::vector<double> own;
  own.reserve(tokens * width);
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(t * columns + part * width);
    own.insert(own.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  return own;
}

void put_part_of_rows(std::vector<double>& rows, const std::vector<double>& own, std::size_t tokens, std::size_t part,
                      std::size_t parts) {
  const std::size_t width = own.size() / tokens, columns = width * parts;
  rows.resize(tokens * columns);
  for (std::size_t t = 0; t < tokens; ++t)
    std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(t * width), width,
                rows.begin() + static_cast<std::ptrdiff_t>(t * columns + part * width));
}

ScanSlopes scan_slopes(const ScanHead& head) {
  const auto tokens = static_cast<Eigen::Index>(head.decay.size()), width = static_cast<Eigen::Index>(head.width),
             states = static_cast<Eigen::Index>(head.states);
  const bool is_late = !head.lag.empty();
  ScanSlopes slopes;
  slopes.state.assign(head.decay.size() * head.width * head.states, 0.0);
  if (is_late) {
    slopes.key.assign(head.decay.size() * head.states, 0.0);
    slopes.value.assign(head.decay.size() * head.width, 0.0);
  }
  const auto C = rows_of(head.C, head.states), dy = rows_of(head.readout_slope, head.width);
  for (Eigen::Index t = tokens - 2; t >= 0; --t) {
    const auto next = static_cast<std::size_t>(t + 1);
    auto now = at_token(slopes.state, t, width, states);
    now = head.decay[next] * (at_token(slopes.state, t + 1, width, states) + dy.row(t + 1).transpose() * C.row(t + 1));
    if (!is_late) continue;
    const auto x = rows_of(head.x, head.width), B = rows_of(head.B, head.states);
    at_token(slopes.key, t, 1, states) = head.lag[next] * x.row(t) * now;
    at_token(slopes.value, t, 1, width) = head.lag[next] * B.row(t) * now.transpose();
  }
  return slopes;
}

std::vector<double> convolution_slopes(const ConvolutionRun& run) {
  const auto tokens = static_cast<std::ptrdiff_t>(run.inputs.size() / run.channels),
             channels = static_cast<std::ptrdiff_t>(run.channels), width = static_cast<std::ptrdiff_t>(run.width);
  const auto in = [&](std::ptrdiff_t t, std::ptrdiff_t c) {
    return t < 0 ? 0.0 : run.inputs[static_cast<std::size_t>(t * channels + c)];
  };
  const auto weight = [&](std::ptrdiff_t c, std::ptrdiff_t j) {
    return run.weight[static_cast<std::size_t>(c * width + j)];
  };
  std::vector<double> before_silu(run.inputs.size());
  for (std::ptrdiff_t t = 0; t < tokens; ++t) {
    for (std::ptrdiff_t c = 0; c < channels; ++c) {
      double sum = run.bias.empty() ? 0.0 : run.bias[static_cast<std::size_t>(c)];
      for (std::ptrdiff_t j = 0; j < width; ++j) sum += weight(c, j) * in(t - width + 1 + j, c);
      const auto at = static_cast<std::size_t>(t * channels + c);
      before_silu[at] = run.output_slope[at] * silu_slope(sum);
    }
  }
  // What is kept in place i after token t is seen by token t + 1 + d through the weight i - d.
  std::vector<double> slopes(static_cast<std::size_t>(tokens * (width - 1) * channels), 0.0);
  for (std::ptrdiff_t t = 0; t < tokens; ++t) {
    for (std::ptrdiff_t i = 0; i + 1 < width; ++i) {
      for (std::ptrdiff_t d = 0; d <= i && t + 1 + d < tokens; ++d) {
        for (std::ptrdiff_t c = 0; c < channels; ++c)
          slopes[static_cast<std::size_t>((t * (width - 1) + i) * channels + c)] +=
              weight(c, i - d) * before_silu[static_cast<std::size_t>((t + 1 + d) * channels + c)];
      }
    }
  }
  return slopes;
}

namespace {

/// The state after a token.
struct RidgeMemory {
  RowMajor G, M, C;
  SlopeVector previous_key;
  double m = 0;
};

/// Slopes with respect to it.
using RidgeAdjoint = RidgeMemory;

/// In the order of the state's tensors.
std::array<std::span<double>, 5> parts_of(RidgeMemory& of) {
  const auto numbers = [](auto& matrix) { return std::span(matrix.data(), static_cast<std::size_t>(matrix.size())); };
  return {numbers(of.G), numbers(of.M), numbers(of.C), numbers(of.previous_key), std::span(&of.m, 1)};
}

RidgeMemory nothing(const RidgeRun& run) {
  const Eigen::Index r = run.head.rank, width = run.head.value_width;
  return {RowMajor::Zero(r, r), RowMajor::Zero(r, r), RowMajor::Zero(width, r), SlopeVector::Zero(r), 0};
}

RidgeMemory after_token(const RidgeRun& run, const RidgeMemory& before, Eigen::Index t) {
  const SlopeVector key = rows_of(run.keys, run.head.rank).row(t),
                    value = rows_of(run.values, run.head.value_width).row(t);
  RidgeMemory now;
  now.m = std::max({before.m, key.norm(), run.smallest_scale});
  const double shrink = before.m / now.m;
  now.previous_key = key / now.m;
  now.G = shrink * shrink * before.G + now.previous_key * now.previous_key.transpose();
  now.M = shrink * shrink * before.M + now.previous_key * (shrink * before.previous_key).transpose();
  now.C = shrink * before.C + value * now.previous_key.transpose();
  return now;
}

/// With more on the diagonal where the factorisation fails, as the kernel adds it.
SkaOperators operators_of(const RidgeRun& run, const RidgeMemory& now) {
  constexpr int tries = 10;
  SkaHead of = run.head;
  of.G = numbers_of(now.G);
  of.M = numbers_of(now.M);
  of.C = numbers_of(now.C);
  SkaOperators operators = ska_operators(of);
  for (int i = 0; i < tries && operators.empty(); ++i) {
    of.ridge += ska_jitter_step;
    operators = ska_operators(of);
  }
  return operators;
}

/// What the answer y = (eta / m) F (s A_w)^K L^-1 q to token t says of the statistics that it is read from, where A_w =
/// L^-1 M L^-T and F = C L^-T. With w_k = (s A_w)^k L^-1 q and d_k the gradient with respect to it, all of it is a sum
/// of K + 1 outer products: core/layers/gradients.md, "SKA".
RidgeAdjoint readout_adjoint(const RidgeRun& run, const RidgeMemory& now, Eigen::Index t) {
  const SlopeVector query = rows_of(run.queries, run.head.rank).row(t),
                    dy = rows_of(run.readout_slope, run.head.value_width).row(t);
  const SkaOperators operators = operators_of(run, now);
  if (operators.empty()) return nothing(run);
  const auto r = now.G.rows();
  const RowMajor A = matrix_of(operators.A, r, r), L = matrix_of(operators.L, r, r),
                 F = matrix_of(operators.readout, now.C.rows(), r);
  const auto lower = L.triangularView<Eigen::Lower>();
  const double gain = run.head.eta / now.m;
  const auto power = static_cast<std::size_t>(run.head.power);
  std::vector<SlopeVector> u(power + 1);  // L^-T w_k
  SlopeVector w = lower.solve(query);
  for (std::size_t k = 0; k <= power; ++k) {
    u[k] = lower.transpose().solve(w);
    w = A * w;
  }
  RidgeAdjoint adjoint = nothing(run);
  SlopeVector d = gain * F.transpose() * dy;
  for (std::size_t k = power + 1; k-- > 0;) {
    const SlopeVector v = lower.transpose().solve(d);
    adjoint.G -= 0.5 * (v * u[k].transpose() + u[k] * v.transpose());
    if (k > 0) adjoint.M += operators.scale * v * u[k - 1].transpose();
    d = A.transpose() * d;
  }
  adjoint.C = gain * dy * u[power].transpose();
  adjoint.m = -dy.dot(gain * (now.C * u[power])) / now.m;
  return adjoint;
}

/// From the state after token t, with what its answer says, to the state before it.
RidgeAdjoint before_token(const RidgeRun& run, const RidgeMemory& before, const RidgeMemory& now,
                          const RidgeAdjoint& after, Eigen::Index t) {
  const double shrink = before.m / now.m;
  const SlopeVector value = rows_of(run.values, run.head.value_width).row(t),
                    earlier = after.M.transpose() * now.previous_key;
  const SlopeVector dkey = (after.G + after.G.transpose()) * now.previous_key +
                           after.M * (shrink * before.previous_key) + after.C.transpose() * value + after.previous_key;
  const double dshrink = 2 * shrink * (after.G.cwiseProduct(before.G).sum() + after.M.cwiseProduct(before.M).sum()) +
                         earlier.dot(before.previous_key) + after.C.cwiseProduct(before.C).sum();
  RidgeAdjoint adjoint;
  adjoint.G = shrink * shrink * after.G;
  adjoint.M = shrink * shrink * after.M;
  adjoint.C = shrink * after.C;
  adjoint.previous_key = shrink * earlier;
  adjoint.m = dshrink / now.m;
  // m' is the largest of both, and of the new key's own length says nothing about the memory.
  if (now.m == before.m) adjoint.m += after.m - (dkey.dot(now.previous_key) + dshrink * shrink) / now.m;
  return adjoint;
}

}  // namespace

std::array<std::vector<double>, 5> ridge_slopes(const RidgeRun& run) {
  const auto tokens = static_cast<Eigen::Index>(run.keys.size()) / run.head.rank;
  std::vector<RidgeMemory> memories{nothing(run)};  // before the first token, then after each
  for (Eigen::Index t = 0; t < tokens; ++t) memories.push_back(after_token(run, memories.back(), t));
  std::array<std::vector<double>, 5> slopes;
  RidgeAdjoint carried = nothing(run);
  for (Eigen::Index t = tokens - 1; t >= 0; --t) {
    RidgeAdjoint after = readout_adjoint(run, memories[static_cast<std::size_t>(t) + 1], t);
    const auto all = parts_of(carried), own = parts_of(after);
    for (std::size_t part = 0; part < slopes.size(); ++part) {
      slopes[part].resize(static_cast<std::size_t>(tokens) * all[part].size());
      std::ranges::copy(all[part], slopes[part].begin() + t * std::ssize(all[part]));
      for (std::size_t i = 0; i < all[part].size(); ++i) own[part][i] += all[part][i];
    }
    carried =
        before_token(run, memories[static_cast<std::size_t>(t)], memories[static_cast<std::size_t>(t) + 1], after, t);
  }
  return slopes;
}

}  // namespace afterglow
