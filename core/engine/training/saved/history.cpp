// Chooses which past states are kept.
#include "core/engine/training/saved/history.h"

#include <algorithm>

namespace afterglow {
namespace {
constexpr std::int64_t dense_steps = 2000;   // rewinding within these must feel immediate
constexpr std::int64_t closest_frames = 10;  // steps between states if memory is no limit
}  // namespace

bool History::wants(std::int64_t step, std::size_t state_bytes) const {
  const auto affordable = static_cast<std::int64_t>(limit_ / 2 / std::max<std::size_t>(state_bytes, 1));
  const std::int64_t interval = std::max(closest_frames, dense_steps / std::max<std::int64_t>(affordable, 1));
  return step % interval == 0 && (frames_.empty() || frames_.back().step < step);
}

void History::keep(TrainerState state) {
  const auto place = std::ranges::lower_bound(frames_, state.step, {}, &TrainerState::step);
  if (place != frames_.end() && place->step == state.step) return;
  bytes_ += state.bytes();
  frames_.insert(place, std::move(state));
  cached_states_.reset();
  while (bytes_ > limit_ && thin_out()) {
  }
}

// Drops the state with the smallest gap relative to its age. False if none may be dropped.
bool History::thin_out() {
  const std::int64_t newest = frames_.back().step;
  std::size_t victim = 0;
  double least = -1;
  for (std::size_t i = 1; i + 1 < frames_.size(); ++i) {
    if (frames_[i].step == pinned_) continue;
    const double gap = static_cast<double>(frames_[i + 1].step - frames_[i - 1].step);
    const double harm = gap / static_cast<double>(newest - frames_[i].step + 1);
    if (least < 0 || harm < least) {
      least = harm;
      victim = i;
    }
  }
  if (victim == 0) return false;
  bytes_ -= frames_[victim].bytes();
  spare_ = std::move(frames_[victim]);
  frames_.erase(frames_.begin() + static_cast<std::ptrdiff_t>(victim));
  return true;
}

const TrainerState* History::before(std::int64_t step) const {
  const TrainerState* found = nullptr;
  for (const TrainerState& frame : frames_) {
    if (frame.step <= step) found = &frame;
  }
  return found;
}

std::shared_ptr<const std::vector<KeptState>> History::kept() const {
  if (cached_states_) return cached_states_;
  std::vector<KeptState> states;
  for (const TrainerState& frame : frames_) {
    std::string& checksum = checksums_[frame.step];
    if (checksum.empty()) checksum = checksum_of(frame);
    states.push_back({frame.step, checksum});
  }
  return cached_states_ = std::make_shared<const std::vector<KeptState>>(std::move(states));
}

void History::forget_after(std::int64_t step) {
  checksums_.erase(checksums_.upper_bound(step), checksums_.end());
  cached_states_.reset();
  while (!frames_.empty() && frames_.back().step > step) {
    bytes_ -= frames_.back().bytes();
    frames_.pop_back();
  }
}

}  // namespace afterglow
