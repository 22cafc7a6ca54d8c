// The last ten seconds of the window, for slides and course pages: which pictures are stored, and their pace.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "app/window/display/screenshot.h"

namespace afterglow {

/// All of one size, `Film::interval` apart; a picture that was visible for longer is repeated.
using FilmFrames = std::vector<std::shared_ptr<const Pixels>>;

class Film {
 public:
  static constexpr double length = 10, interval = 0.2;     ///< seconds
  static constexpr int max_width = 960, max_height = 720;  ///< of its pictures; 52 of them take at most 110 MB
  static constexpr double share = 0.02;                    ///< largest share of all processors for taking pictures

  explicit Film(int processors = 1) : allowed_(share * processors) {}

  /// Whether pictures are stored; otherwise they would cost time and memory for nothing.
  bool is_on() const { return is_on_; }
  void keep(bool is_on);
  /// Whether a picture is due: five per second, and fewer if one costs more than its share.
  bool wants(double now) const { return is_on_ && (shots_.empty() || now - last_taken_ >= pause()); }
  /// `cost`: processor seconds for taking it.
  void add(double now, Pixels pixels, double cost = 0);
  /// The picture that was visible at each interval of the last ten seconds, as far as they are recorded.
  FilmFrames frames(double now) const;

 private:
  struct Shot {
    double time;
    std::shared_ptr<const Pixels> pixels;
  };
  double pause() const;

  double allowed_;  ///< seconds of work per second
  bool is_on_ = false;
  double cost_ = 0, last_taken_ = 0;
  std::deque<Shot> shots_;  ///< those that differ from the one before
};

}  // namespace afterglow
