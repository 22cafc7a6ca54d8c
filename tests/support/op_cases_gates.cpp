// Cases of the gates of recurrent layers.
#include <algorithm>
#include <cmath>
#include <functional>

#include "core/ops/ops.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

namespace {

/// The numbers before the gate are a range of columns of a wider tensor; `sharing` neighbours have one rate.
OpCase decay_case(std::int64_t rows, std::int64_t before, std::int64_t heads, std::int64_t sharing = 1) {
  OpCase c;
  c.name = "log_decay_" + std::to_string(rows) + "x" + std::to_string(heads) + "_by_" + std::to_string(sharing);
  c.inputs = {
      {"wide", {1, rows, before + heads}, -4, 4}, {"A_log", {heads / sharing}, -1, 2}, {"bias", {heads}, -2, 1}};
  c.run = [before, heads](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {before, heads};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    return log_decay(t, parts[1], in[1], in[2]);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(static_cast<std::size_t>(rows * heads));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t h = 0; h < heads; ++h)
        y[i * heads + h] = -std::exp(in[1][h / sharing]) *
                           std::log(1.0 + std::exp(in[0][i * (before + heads) + before + h] + in[2][h]));
    return y;
  };
  c.tolerance = 4e-6;
  c.reason = "a softplus of a rounded sum; sums over up to 101 rows";
  return c;
}

OpCase sigmoid_case(std::int64_t rows, std::int64_t before, std::int64_t columns, double most) {
  OpCase c;
  c.name = "log_sigmoid_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"wide", {1, rows, before + columns}, -most, most}};
  c.run = [before, columns](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    const std::int64_t widths[] = {before, columns};
    Var parts[2];
    t.split_columns(in[0], widths, parts);
    return log_sigmoid(t, parts[1], 0.0625);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(static_cast<std::size_t>(rows * columns));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        y[i * columns + j] = -0.0625 * std::log1p(std::exp(-in[0][i * (before + columns) + before + j]));
    return y;
  };
  c.reason = "a logarithm and an exponential of each number";
  return c;
}

OpCase route_case(const std::string& name, std::int64_t experts, const Router& router) {
  OpCase c;
  c.name = "route_" + name;
  c.inputs = {{"x", {1, 37, experts}, -3, 3}};
  c.run = [=](Tape& t, std::span<const Var> in, std::span<const Tensor>) { return route(t, in[0], {}, router); };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(in[0].size(), 0.0);
    const std::int64_t in_group = experts / router.groups;
    for (auto row = in[0].begin(); row != in[0].end(); row += experts) {
      Values scores(row, row + experts);
      double sum = 0;
      for (double& s : scores) sum += s = router.sigmoid ? 1 / (1 + std::exp(-s)) : std::exp(s);
      if (!router.sigmoid)
        for (double& s : scores) s /= sum;
      std::vector<std::pair<double, std::int64_t>> of_groups, all;
      for (std::int64_t g = 0; g < router.groups; ++g) {
        Values own(scores.begin() + g * in_group, scores.begin() + (g + 1) * in_group);
        std::ranges::sort(own, std::greater());
        of_groups.emplace_back(-(own[0] + (own.size() > 1 ? own[1] : 0)), g);
      }
      std::ranges::sort(of_groups);
      for (std::int64_t g = 0; g < router.kept_groups; ++g)
        for (std::int64_t e = of_groups[g].second * in_group; e < (of_groups[g].second + 1) * in_group; ++e)
          all.emplace_back(-scores[e], e);
      std::ranges::sort(all);
      sum = router.eps;
      for (std::int64_t i = 0; i < router.chosen; ++i) sum += scores[all[i].second];
      for (std::int64_t i = 0; i < router.chosen; ++i)
        y[row - in[0].begin() + all[i].second] =
            router.factor * scores[all[i].second] / (router.normalised ? sum : 1.0);
    }
    return y;
  };
  c.reason = "exponentials, and one sum over the experts";
  return c;
}

OpCase rows_case(std::int64_t rows, std::int64_t columns) {
  OpCase c;
  c.name = "multiply_rows_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"x", {rows, columns}, -2, 2}, {"factor", {rows}, 0, 1}};
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return multiply_rows(t, in[0], in[1], 0.125);
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(in[0].size());
    for (std::int64_t i = 0; i < rows * columns; ++i) y[i] = in[0][i] * (in[1][i / columns] + 0.125);
    return y;
  };
  c.reason = "one sum over a row";
  return c;
}

OpCase products_case(std::int64_t rows, std::int64_t columns) {
  OpCase c;
  c.name = "row_products_" + std::to_string(rows) + "x" + std::to_string(columns);
  c.inputs = {{"a", {rows, columns}, -2, 2}, {"b", {rows, columns}, -2, 2}};
  // Of one value with itself, too, whose gradients meet.
  c.run = [](Tape& t, std::span<const Var> in, std::span<const Tensor>) {
    return add(t, row_products(t, in[0], in[1]), row_products(t, in[0], in[0]));
  };
  c.naive = [=](std::span<const Values> in, std::span<const Values>) {
    Values y(static_cast<std::size_t>(rows), 0.0);
    for (std::int64_t i = 0; i < rows * columns; ++i) y[i / columns] += in[0][i] * (in[1][i] + in[0][i]);
    return y;
  };
  c.reason = "one sum over a row";
  return c;
}

}  // namespace

void add_gate_cases(std::vector<OpCase>& cases) {
  cases.push_back(products_case(37, 5));
  cases.push_back(products_case(3, 101));
  cases.push_back(route_case("softmax", 7, {.chosen = 2, .factor = 1.5}));
  cases.push_back(route_case("softmax_normalised", 8, {.chosen = 3, .normalised = true}));
  cases.push_back(route_case("sigmoid", 5, {.sigmoid = true, .chosen = 2}));
  cases.push_back(route_case(
      "sigmoid_groups", 12,
      {.sigmoid = true, .chosen = 3, .normalised = true, .eps = 1e-20, .factor = 2.5, .groups = 4, .kept_groups = 2}));
  cases.push_back(decay_case(1, 1, 37));
  cases.push_back(decay_case(101, 3, 4));
  cases.push_back(decay_case(65, 63, 1));
  cases.push_back(decay_case(101, 3, 36, 12));
  cases.push_back(decay_case(67, 2, 130, 65));
  cases.push_back(sigmoid_case(1, 1, 37, 4));
  cases.push_back(sigmoid_case(101, 3, 5, 20));
  cases.push_back(rows_case(37, 1));
  cases.push_back(rows_case(1, 63));
  cases.push_back(rows_case(65, 101));
}

}  // namespace afterglow::testing
