// When to save a running training, so that a killed process or a power cut costs minutes at most.
#pragma once
#include <chrono>
#include <cstdint>

namespace afterglow {

/// How much training may be lost.
struct SaveInterval {
  std::int64_t steps = 0;  ///< 0: no limit
  double minutes = 10;     ///< 0: no limit
};

class SaveSchedule {
 public:
  SaveSchedule(SaveInterval interval, std::int64_t step) : interval_(interval), step_(step) {}

  /// Whether a snapshot is due after this step; if so, the next is due one interval later.
  bool is_due(std::int64_t step) {
    const auto now = Clock::now();
    const bool by_steps = interval_.steps > 0 && step - step_ >= interval_.steps;
    const bool by_time = interval_.minutes > 0 && now - time_ >= std::chrono::duration<double>(60 * interval_.minutes);
    if (!by_steps && !by_time) return false;
    step_ = step;
    time_ = now;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  SaveInterval interval_;
  std::int64_t step_;
  Clock::time_point time_ = Clock::now();
};

}  // namespace afterglow
