// The level-of-detail pyramid: points in sealed blocks of 1024 with the extremes of every 32 points and of the whole
// block.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "core/figure/decimate.h"

namespace afterglow {
namespace {

// One more point, or one more stretch, seen after what `s` already knows.
void note(Summary& s, std::size_t i, double x, double y, auto&& y_at) {
  if (!std::isfinite(x) || !std::isfinite(y)) {
    if (s.first_flaw == Summary::none) s.first_flaw = i;
    return;
  }
  if (s.lowest == Summary::none || y < y_at(s.lowest)) s.lowest = i;
  if (s.highest == Summary::none || y > y_at(s.highest)) s.highest = i;
  if (y <= 0) {
    if (s.first_non_positive == Summary::none) s.first_non_positive = i;
  } else if (s.lowest_positive == Summary::none || y < y_at(s.lowest_positive)) {
    s.lowest_positive = i;
  }
}

void merge(Summary& s, const Summary& later, std::size_t offset, auto&& y_at) {
  constexpr std::size_t none = Summary::none;
  const auto moved = [offset](std::size_t i) { return i == none ? none : i + offset; };
  const auto better = [&](std::size_t& kept, std::size_t candidate, auto&& beats) {
    if (candidate != none && (kept == none || beats(y_at(candidate), y_at(kept)))) kept = candidate;
  };
  better(s.lowest, moved(later.lowest), std::less<>{});
  better(s.highest, moved(later.highest), std::greater<>{});
  better(s.lowest_positive, moved(later.lowest_positive), std::less<>{});
  if (s.first_flaw == none) s.first_flaw = moved(later.first_flaw);
  if (s.first_non_positive == none) s.first_non_positive = moved(later.first_non_positive);
}

}  // namespace

Summary summary_of(std::span<const double> x, std::span<const double> y, std::size_t first, std::size_t last) {
  Summary s;
  for (std::size_t i = first; i < last; ++i) note(s, i, x[i], y[i], [y](std::size_t k) { return y[k]; });
  return s;
}

struct CurvePyramid::Block {
  std::array<double, block_size> x, y;
  std::array<Summary, block_size / run_size> runs;  ///< indices within the block
  Summary whole;

  Block(std::span<const double> xs, std::span<const double> ys) {
    std::copy_n(xs.begin(), block_size, x.begin());
    std::copy_n(ys.begin(), block_size, y.begin());
    const auto y_at = [this](std::size_t i) { return y[i]; };
    for (std::size_t i = 0; i < block_size; ++i) note(runs[i / run_size], i, x[i], y[i], y_at);
    for (const Summary& run : runs) merge(whole, run, 0, y_at);
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

std::size_t CurvePyramid::first_not_below(double value) const {
  std::size_t low = 0, high = size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (x(middle) < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Summary CurvePyramid::summary_within_block(std::size_t block, std::size_t first, std::size_t last) const {
  if (block == sealed_.size()) return summary_of(tail_x_, tail_y_, first, last);
  const Block& b = *sealed_[block];
  if (first == 0 && last == block_size) return b.whole;
  const auto y_at = [&b](std::size_t i) { return b.y[i]; };
  const std::size_t first_run = (first + run_size - 1) / run_size, last_run = last / run_size;
  if (first_run >= last_run) return summary_of(b.x, b.y, first, last);
  Summary s = summary_of(b.x, b.y, first, first_run * run_size);
  for (std::size_t run = first_run; run < last_run; ++run) merge(s, b.runs[run], 0, y_at);
  merge(s, summary_of(b.x, b.y, last_run * run_size, last), 0, y_at);
  return s;
}

Summary CurvePyramid::summary(std::size_t first, std::size_t last) const {
  Summary s;
  last = std::min(last, size());
  while (first < last) {
    const std::size_t block = first / block_size, start = block * block_size;
    const std::size_t end = std::min(last, start + block_size);
    merge(s, summary_within_block(block, first - start, end - start), start, [this](std::size_t i) { return y(i); });
    first = end;
  }
  return s;
}

}  // namespace afterglow
