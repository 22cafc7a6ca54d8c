// Stores pictures of the window, and returns them at an even pace.
#include "app/window/film/film.h"

#include <algorithm>
#include <cmath>

namespace afterglow {
namespace {
constexpr double slowest = 2;  ///< seconds between two pictures, however expensive one is
}  // namespace

void Film::keep(bool is_on) {
  is_on_ = is_on;
  if (!is_on) shots_.clear();
}

double Film::pause() const { return std::clamp(cost_ / allowed_, interval, slowest); }

void Film::add(double now, Pixels pixels, double cost) {
  cost_ = shots_.empty() ? cost : 0.8 * cost_ + 0.2 * cost;
  last_taken_ = now;
  // A film has one size: it restarts after a change of the window's size.
  if (!shots_.empty() && (shots_.back().pixels->width != pixels.width || shots_.back().pixels->height != pixels.height))
    shots_.clear();
  if (shots_.empty() || shots_.back().pixels->rgb != pixels.rgb)
    shots_.push_back({now, std::make_shared<const Pixels>(std::move(pixels))});
  // The picture before the ten seconds stays: it was visible when they began.
  while (shots_.size() > 1 && shots_[1].time <= now - length) shots_.pop_front();
}

FilmFrames Film::frames(double now) const {
  FilmFrames all;
  if (shots_.empty()) return all;
  const double start = std::max(shots_.front().time, now - length);
  const auto count = static_cast<int>(std::floor((now - start) / interval)) + 1;
  std::size_t shot = 0;
  for (int i = 0; i < count; ++i) {
    const double time = start + i * interval;
    while (shot + 1 < shots_.size() && shots_[shot + 1].time <= time) ++shot;
    all.push_back(shots_[shot].pixels);
  }
  return all;
}

}  // namespace afterglow
