// Steps and seconds.
#include "core/engine/session/run_control.h"

#include <algorithm>
#include <array>
#include <utility>

namespace afterglow {
namespace {
constexpr double speed_seconds = 0.5;  // minimal interval over which the speed is averaged
constexpr std::array<double, 8> speed_limits{1, 2, 5, 10, 20, 50, 100, 0};
}  // namespace

void RunControl::start(std::int64_t until) {
  pause_at_ = until;
  running_ = true;
  stopped_non_finite_ = false;
  rebuilds_to_ = -1;
}

void RunControl::rebuild(std::int64_t until) {
  start(until);
  rebuilds_to_ = until;
}

void RunControl::pause() {
  running_ = false;
  rebuilds_to_ = -1;
}

void RunControl::train_more(std::int64_t count, std::int64_t step) {
  start((running_ && pause_at_ >= 0 ? pause_at_ : step) + count);
}

void RunControl::rest(bool is_non_finite) {
  pause();
  stopped_non_finite_ = is_non_finite;
}

void RunControl::open(std::optional<std::int64_t> until) {
  compared_.clear();
  rest(false);
  pause_at_ = -1;
  if (until) rebuild(*until);
}

bool RunControl::is_over(std::int64_t step, bool finished) const {
  return pause_at_ >= 0 ? step >= pause_at_ : finished;
}

void RunControl::limit_speed(double steps_per_second) {
  speed_limit_ = steps_per_second;
  next_step_at_ = 0;
}

void RunControl::change_speed(std::int64_t by) {
  const auto last = static_cast<std::int64_t>(speed_limits.size()) - 1;
  std::int64_t now = last;
  for (std::int64_t i = last; speed_limit_ > 0 && i-- > 0;) {
    if (speed_limits[static_cast<std::size_t>(i)] >= speed_limit_) now = i;
  }
  limit_speed(speed_limits[static_cast<std::size_t>(std::clamp<std::int64_t>(now + by, 0, last))]);
}

// A late step shortens the next interval by at most half.
void RunControl::count_step(double seconds) {
  if (speed_limit_ <= 0) return;
  const double interval = 1 / speed_limit_;
  next_step_at_ = std::max(next_step_at_, seconds - interval / 2) + interval;
}

std::optional<ComparedRun> RunControl::next_compared() {
  if (compared_.empty()) return std::nullopt;
  ComparedRun next = std::move(compared_.front());
  compared_.pop_front();
  return next;
}

void RunControl::restart_clock(std::int64_t step, double seconds) {
  clock_start_ = seconds;
  clock_step_ = step;
}

void RunControl::measure_speed(std::int64_t step, double seconds) {
  const double elapsed = seconds - clock_start_;
  if (elapsed < speed_seconds) return;
  steps_per_second_ = static_cast<double>(step - clock_step_) / elapsed;
  restart_clock(step, seconds);
}

}  // namespace afterglow
