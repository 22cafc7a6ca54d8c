// Steps and seconds.
#include "core/engine/session/run_control.h"

#include <utility>

namespace afterglow {

namespace {
constexpr double speed_seconds = 0.5;  // that a measured speed is the mean of, at least
}

void RunControl::start(std::int64_t until) {
  pause_at_ = until;
  running_ = true;
  stopped_non_finite_ = false;
}

void RunControl::train_more(std::int64_t count, std::int64_t step) {
  start((running_ && pause_at_ >= 0 ? pause_at_ : step) + count);
}

void RunControl::rest(bool is_non_finite) {
  running_ = false;
  stopped_non_finite_ = is_non_finite;
}

void RunControl::open(std::optional<std::int64_t> until) {
  compared_.clear();
  stopped_non_finite_ = false;
  running_ = until.has_value();
  pause_at_ = until.value_or(-1);
}

bool RunControl::is_over(std::int64_t step, bool finished) const {
  return pause_at_ >= 0 ? step >= pause_at_ : finished;
}

std::optional<std::string> RunControl::next_compared() {
  if (compared_.empty()) return std::nullopt;
  std::string next = std::move(compared_.front());
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
