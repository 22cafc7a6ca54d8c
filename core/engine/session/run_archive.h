// What a session keeps of the runs before the present one: their curves, to be compared, and checksums by which two
// runs recognise that they are the same.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/observation/observation.h"

namespace afterglow {

class RunArchive {
 public:
  /// Curves of earlier runs, oldest first; the first ones go when there are more than 32.
  const std::vector<RunCurves>& runs() const { return runs_; }
  /// The present run's number, counted from 1, and "run 3".
  int number() const { return number_; }
  std::string name() const { return "run " + std::to_string(number_); }

  /// The present run ends here and another one takes its place; one without a step leaves nothing.
  void replace(const RunCurves& curves);
  /// The present run stays as it is; a copy goes on under the next number.
  void branch(const RunCurves& curves);

  /// The run goes back: `curves` are what it takes back. They are kept aside, as training again may give the same.
  void rewind(const RunCurves& curves, std::int64_t step);
  /// A setting has been changed at `step`, so the curve that a rewind has taken back will not come again: it is kept
  /// beside that of the present run, whose name is `name`.
  void change(const std::string& name, std::int64_t step);

  /// Whether runs are compared at this step; the interval doubles when too many checksums have been kept.
  bool wants_checksum(std::int64_t step) const { return step % checksum_interval_ == 0; }
  /// "run 1" when that one, earlier than the present, had the same checksum; empty otherwise. Remembers it.
  std::string recognise(const std::string& checksum, std::int64_t step);

 private:
  void keep(RunCurves curves);

  std::vector<RunCurves> runs_;
  std::optional<RunCurves> taken_back_;
  int number_ = 1;
  std::map<std::string, std::pair<int, std::int64_t>> checksums_;  // checksum -> run number, step
  std::int64_t checksum_interval_ = 100;                           // steps
};

}  // namespace afterglow
