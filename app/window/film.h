// The last ten seconds of the window as numbered pictures, for slides and course pages.
#pragma once
#include <deque>
#include <filesystem>
#include <span>
#include <vector>

#include "app/window/screenshot.h"

namespace afterglow {

class Film {
 public:
  static constexpr double length = 10, interval = 0.2;  ///< seconds
  static constexpr int max_width = 960;                 ///< of its pictures, in pixels

  /// Whether pictures are kept; without that they would cost time and memory that nothing needs.
  bool is_on() const { return is_on_; }
  void keep(bool is_on);
  /// Whether a picture is due.
  bool wants(double now) const { return is_on_ && (shots_.empty() || now - shots_.back().time >= interval); }
  void add(double now, Pixels pixels);
  /// A picture for each interval of the last ten seconds, as far as they go back: the one that was shown then.
  std::vector<Pixels> frames(double now) const;

 private:
  struct Shot {
    double time;
    Pixels pixels;
  };
  bool is_on_ = false;
  std::deque<Shot> shots_;
};

/// Writes "001.png", "002.png" and so on into a folder of their own beside `name`, and returns it. Throws Error.
std::filesystem::path write_film(std::span<const Pixels> frames, const std::filesystem::path& name);

}  // namespace afterglow
