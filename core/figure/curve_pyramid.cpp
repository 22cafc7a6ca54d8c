// The level-of-detail pyramid: points in sealed blocks of 1024 with the extremes of every 32 points and of the whole
// block.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ranges>

#include "core/figure/decimate.h"

namespace afterglow {
namespace {

/// A summary with the values at its indices, so that merging two needs no access to the points.
struct Extremes {
  Summary at;
  double lowest = infinity, highest = -infinity, lowest_positive = infinity;

  /// Adds a point that follows all points so far.
  void add(std::size_t i, double x, double y) {
    if (!std::isfinite(x) || !std::isfinite(y)) {
      if (at.first_flaw == Summary::none) at.first_flaw = i;
      return;
    }
    take(at.lowest, lowest, i, y, y < lowest);
    take(at.highest, highest, i, y, y > highest);
    if (y > 0) {
      take(at.lowest_positive, lowest_positive, i, y, y < lowest_positive);
    } else if (at.first_non_positive == Summary::none) {
      at.first_non_positive = i;
    }
  }

  /// Adds the extremes of the points that follow; their indices count from `offset`.
  void add(const Extremes& later, std::size_t offset) {
    take(at.lowest, lowest, later.at.lowest + offset, later.lowest, later.lowest < lowest);
    take(at.highest, highest, later.at.highest + offset, later.highest, later.highest > highest);
    take(at.lowest_positive, lowest_positive, later.at.lowest_positive + offset, later.lowest_positive,
         later.lowest_positive < lowest_positive);
    const auto keep_first = [offset](std::size_t& kept, std::size_t candidate) {
      if (kept == Summary::none && candidate != Summary::none) kept = candidate + offset;
    };
    keep_first(at.first_flaw, later.at.first_flaw);
    keep_first(at.first_non_positive, later.at.first_non_positive);
  }

  /// Adds the points [first, last) of two arrays whose element 0 is point `offset` of the curve.
  void add(std::span<const double> x, std::span<const double> y, std::size_t first, std::size_t last,
           std::size_t offset) {
    for (std::size_t i = first; i < last; ++i) add(i + offset, x[i], y[i]);
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static void take(std::size_t& place, double& value, std::size_t i, double candidate, bool is_better) {
    if (!is_better) return;
    place = i;
    value = candidate;
  }
};

}  // namespace

Summary summary_of(std::span<const double> x, std::span<const double> y, std::size_t first, std::size_t last) {
  Extremes all;
  all.add(x, y, first, last, 0);
  return all.at;
}

struct CurvePyramid::Block {
  std::array<double, block_size> x, y;
  std::array<Extremes, block_size / run_size> runs;  ///< indices within the block
  Extremes whole;

  Block(std::span<const double> xs, std::span<const double> ys) {
    std::copy_n(xs.begin(), block_size, x.begin());
    std::copy_n(ys.begin(), block_size, y.begin());
    for (std::size_t i = 0; i < block_size; ++i) runs[i / run_size].add(i, x[i], y[i]);
    for (const Extremes& run : runs) whole.add(run, 0);
  }

  /// Adds the points [first, last) of the block, whose first point has the index `start` in the curve.
  void add_to(Extremes& all, std::size_t first, std::size_t last, std::size_t start) const {
    if (first == 0 && last == block_size) return all.add(whole, start);
    const std::size_t first_run = (first + run_size - 1) / run_size, last_run = last / run_size;
    if (first_run >= last_run) return all.add(x, y, first, last, start);
    all.add(x, y, first, first_run * run_size, start);
    for (std::size_t run = first_run; run < last_run; ++run) all.add(runs[run], start);
    all.add(x, y, last_run * run_size, last, start);
  }
};

void CurvePyramid::append(double x_value, double y_value) {
  const std::size_t n = size();
  if (std::isnan(x_value) || (n > 0 && !(x_value >= x(n - 1)))) is_sorted_ = false;
  tail_x_.push_back(x_value);
  tail_y_.push_back(y_value);
  if (std::isfinite(y_value)) x_extent_.add(x_value);
  if (std::isfinite(x_value)) y_extent_.add(y_value);
  if (tail_x_.size() == block_size) seal();
}

void CurvePyramid::append(std::span<const double> xs, std::span<const double> ys) {
  for (std::size_t i = 0; i < std::min(xs.size(), ys.size()); ++i) append(xs[i], ys[i]);
}

void CurvePyramid::seal() {
  sealed_.push_back(std::make_shared<const Block>(tail_x_, tail_y_));
  tail_x_.clear();
  tail_y_.clear();
}

double CurvePyramid::x(std::size_t i) const {
  const std::size_t block = i / block_size;
  return block < sealed_.size() ? sealed_[block]->x[i % block_size] : tail_x_[i % block_size];
}

double CurvePyramid::y(std::size_t i) const {
  const std::size_t block = i / block_size;
  return block < sealed_.size() ? sealed_[block]->y[i % block_size] : tail_y_[i % block_size];
}

std::size_t CurvePyramid::bisected(double value, std::size_t low, std::size_t high) const {
  return *std::ranges::partition_point(std::views::iota(low, high), [&](std::size_t i) { return x(i) < value; });
}

std::size_t CurvePyramid::first_not_below(double value) const { return bisected(value, 0, size()); }

// Galloping search from the guess: the step doubles until the boundary is inside the bracket.
std::size_t CurvePyramid::first_not_below(double value, std::size_t guess) const {
  std::size_t low = std::min(guess, size()), high = low, reach = 2;
  for (; low > 0 && !(x(low - 1) < value); reach *= 2) {
    high = low;
    low -= std::min(low, reach);
  }
  for (; high < size() && x(high) < value; reach *= 2) {
    low = high;
    high = std::min(size(), high + reach);
  }
  return bisected(value, low, high);
}

Summary CurvePyramid::summary(std::size_t first, std::size_t last) const {
  Extremes all;
  last = std::min(last, size());
  while (first < last) {
    const std::size_t block = first / block_size, start = block * block_size;
    const std::size_t end = std::min(last, start + block_size);
    if (block < sealed_.size()) {
      sealed_[block]->add_to(all, first - start, end - start, start);
    } else {
      all.add(tail_x_, tail_y_, first - start, end - start, start);
    }
    first = end;
  }
  return all.at;
}

// Copies share their leading blocks, and sealed blocks never change: if one block is shared, so are all before it.
std::size_t CurvePyramid::shared_points(const CurvePyramid& other) const {
  std::size_t blocks = std::min(sealed_.size(), other.sealed_.size());
  while (blocks > 0 && sealed_[blocks - 1] != other.sealed_[blocks - 1]) --blocks;
  return blocks * block_size;
}

}  // namespace afterglow
