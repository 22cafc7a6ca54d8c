// The last ten seconds of the window, for slides and course pages: which pictures are kept, and at what pace they come
// out.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "app/window/display/screenshot.h"

namespace afterglow {

/// All of one size, `Film::interval` apart; a picture that was shown for longer stands there several times.
using FilmFrames = std::vector<std::shared_ptr<const Pixels>>;

class Film {
 public:
  static constexpr double length = 10, interval = 0.2;     ///< seconds
  static constexpr int max_width = 960, max_height = 720;  ///< of its pictures; 52 of them take 110 MB at most
  static constexpr double share = 0.02;                    ///< of all processors, at most, for taking pictures

  explicit Film(int processors = 1) : allowed_(share * processors) {}

  /// Whether pictures are kept; without that they would cost time and memory that nothing needs.
  bool is_on() const { return is_on_; }
  void keep(bool is_on);
  /// Whether a picture is due: five a second, and fewer where one costs more than its share.
  bool wants(double now) const { return is_on_ && (shots_.empty() || now - last_taken_ >= pause()); }
  /// `cost`: the seconds of a processor that taking it took.
  void add(double now, Pixels pixels, double cost = 0);
  /// A picture for each interval of the last ten seconds, as far as they go back: the one that was shown then.
  FilmFrames frames(double now) const;

 private:
  struct Shot {
    double time;
    std::shared_ptr<const Pixels> pixels;
  };
  double pause() const;

  double allowed_;  ///< seconds of work a second
  bool is_on_ = false;
  double cost_ = 0, last_taken_ = 0;
  std::deque<Shot> shots_;  ///< those that differ from the one before
};

}  // namespace afterglow
