// The past of a run: states saved at some steps within a memory limit, so that any step can be reached from the last
// state before it by training forward. Recent steps are dense, old ones sparse.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

class History {
 public:
  static constexpr std::size_t default_limit = std::size_t{512} << 20;  ///< bytes

  explicit History(std::size_t limit = default_limit) : limit_(limit) {}

  /// Whether to save the state after `step`, given the size of a state.
  bool wants(std::int64_t step, std::size_t state_bytes) const;
  /// Saves a state unless there is one of the same step. Drops older ones to stay within the limit, never the first.
  void keep(TrainerState state);
  /// Keeps the state saved after `step` whatever the limit, until another one is pinned or `forget_after` drops it.
  void pin(std::int64_t step) { pinned_ = step; }
  /// Memory of a dropped state for the next one, so that saving for hours neither allocates nor fragments memory.
  TrainerState take_spare() { return std::exchange(spare_, {}); }
  /// The last saved state at or before `step`; nullptr without one.
  const TrainerState* before(std::int64_t step) const;
  /// Drops the states after `step`.
  void forget_after(std::int64_t step);

  /// Step of the first saved state; -1 without one.
  std::int64_t oldest() const { return frames_.empty() ? -1 : frames_.front().step; }

  /// All saved states. Checksums are computed on request, each once.
  std::shared_ptr<const std::vector<KeptState>> kept() const;

  std::size_t bytes() const { return bytes_; }
  std::size_t frames() const { return frames_.size(); }

 private:
  bool thin_out();
  std::size_t limit_;
  std::size_t bytes_ = 0;
  std::int64_t pinned_ = -1;
  std::vector<TrainerState> frames_;  // ascending by step
  TrainerState spare_;
  mutable std::map<std::int64_t, std::string> checksums_;                // of present and former states, by step
  mutable std::shared_ptr<const std::vector<KeptState>> cached_states_;  // null: states have changed since
};

}  // namespace afterglow
