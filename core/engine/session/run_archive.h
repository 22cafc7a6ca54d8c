// What a session keeps of the runs before the present one: their curves, to be compared, the recipes that make them
// again, and checksums by which two runs recognise that they are the same.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/recipe/recipe.h"

namespace afterglow {

struct EarlierRun {
  RunCurves curves;
  Recipe recipe;  ///< makes it again up to its last step
};

class RunArchive {
 public:
  /// Earlier runs, oldest first; the first ones go when there are more than 32.
  const std::vector<EarlierRun>& runs() const { return runs_; }
  /// The present run's number, counted from 1, and "run 3".
  int number() const { return number_; }
  std::string name() const { return "run " + std::to_string(number_); }

  /// The present run ends here and another one takes its place; one without a step leaves nothing.
  void replace(EarlierRun present);
  /// The present run stays as it is; a copy goes on from `step` under the next number.
  void branch(EarlierRun present, std::int64_t step);
  /// A change at `step` begins another future: `former`, the present run as it was, is kept beside it.
  void change(EarlierRun former, std::int64_t step);
  /// Throws the newest run of that name away; false where there is none.
  bool discard(const std::string& name);
  /// Throws all of them away.
  void clear() { runs_.clear(); }
  /// Takes the newest earlier run out, to be the present one again.
  std::optional<EarlierRun> take_newest();

  /// Whether runs of a model with so many weights are compared at this step. The interval is longer where a checksum
  /// takes as long as some steps do, and doubles when too many have been kept.
  bool wants_checksum(std::int64_t step, std::int64_t weights) const {
    constexpr std::int64_t quickly_summed = 2'000'000;
    return step % (checksum_interval_ * std::max<std::int64_t>(1, weights / quickly_summed)) == 0;
  }
  /// "run 1" when that one, earlier than the present, had the same checksum; empty otherwise. Remembers it.
  std::string recognise(const std::string& checksum, std::int64_t step);

 private:
  void keep(EarlierRun run);

  std::vector<EarlierRun> runs_;
  int number_ = 1;
  std::map<std::string, std::pair<int, std::int64_t>> checksums_;  // checksum -> run number, step
  std::int64_t checksum_interval_ = 100;                           // steps
};

}  // namespace afterglow
