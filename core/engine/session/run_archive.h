// What a session keeps of earlier runs: curves for comparison, recipes that repeat them, and checksums that recognise
// identical runs.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/recipe/recipe.h"

namespace afterglow {

struct EarlierRun {
  RunCurves curves;
  Recipe recipe;  ///< repeats the run up to its last step
};

class RunArchive {
 public:
  /// Earlier runs, oldest first; at most 32, of which the oldest are dropped.
  const std::vector<EarlierRun>& runs() const { return runs_; }
  /// The present run's number, counted from 1, and its name "run 3".
  int number() const { return number_; }
  std::string name() const { return "run " + std::to_string(number_); }

  /// Another run replaces the present one; a run without steps is not kept.
  void replace(EarlierRun present);
  /// Keeps the present run; a copy goes on from `step` under the next number.
  void branch(EarlierRun present, std::int64_t step);
  /// A change at `step` begins another future: keeps `former`, the present run before the change.
  void change(EarlierRun former, std::int64_t step);
  /// Drops the newest run of that name; false without one.
  bool discard(const std::string& name);
  /// Drops all of them.
  void clear() { runs_.clear(); }
  /// Removes the newest earlier run and returns it.
  std::optional<EarlierRun> take_newest();

  /// Whether a model with this many weights is compared at this step. The interval grows with the cost of a checksum,
  /// and doubles when too many are stored.
  bool wants_checksum(std::int64_t step, std::int64_t weights) const {
    constexpr std::int64_t quickly_summed = 2'000'000;
    return step % (checksum_interval_ * std::max<std::int64_t>(1, weights / quickly_summed)) == 0;
  }
  /// "run 1" if that earlier run had the same checksum; otherwise empty. Stores the checksum.
  std::string recognise(const std::string& checksum, std::int64_t step);

 private:
  void keep(EarlierRun run);

  std::vector<EarlierRun> runs_;
  int number_ = 1;
  std::map<std::string, std::pair<int, std::int64_t>> checksums_;  // checksum -> run number, step
  std::int64_t checksum_interval_ = 100;                           // steps
};

}  // namespace afterglow
