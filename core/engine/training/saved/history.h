// The past of a run: full states kept at some steps within a memory limit, so that any step can be reached again by
// going to the last kept state before it and training forward. Recent steps are kept densely, old ones sparsely.
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

  /// Whether the state after `step` should be kept, given the size of a state.
  bool wants(std::int64_t step, std::size_t state_bytes) const;
  /// Keeps a state, unless one of the same step is there; older ones may go to stay within the limit, the first one
  /// always stays.
  void keep(TrainerState state);
  /// The state kept after `step` stays whatever the limit, until another one is pinned or its future is forgotten.
  void pin(std::int64_t step) { pinned_ = step; }
  /// Memory of a state that had to go, for the next one: where states come and go for hours, none is asked of the
  /// system, and none is left behind in pieces.
  TrainerState take_spare() { return std::exchange(spare_, {}); }
  /// The last kept state at or before `step`; nullptr when there is none.
  const TrainerState* before(std::int64_t step) const;
  /// Forgets what comes after `step`: that future no longer belongs to this run.
  void forget_after(std::int64_t step);

  /// Step of the first kept state; -1 where none has been kept yet.
  std::int64_t oldest() const { return frames_.empty() ? -1 : frames_.front().step; }

  /// All kept states. Checksums are found when they are asked for, each once.
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
  mutable std::map<std::int64_t, std::string> checksums_;                // of states that are or were kept, by step
  mutable std::shared_ptr<const std::vector<KeptState>> cached_states_;  // null: others have come or gone since
};

}  // namespace afterglow
