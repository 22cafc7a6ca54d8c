// Which curves and checksums stay.
#include "core/engine/session/run_archive.h"

namespace afterglow {

namespace {
constexpr std::size_t max_runs = 32;
constexpr std::size_t max_checksums = 4096;  // beyond, the interval doubles and every other one goes

std::int64_t last_step(const RunCurves& curves) {
  return curves.first_step - 1 + static_cast<std::int64_t>(curves.loss.size());
}
}  // namespace

void RunArchive::keep(RunCurves curves) {
  runs_.push_back(std::move(curves));
  if (runs_.size() > max_runs) runs_.erase(runs_.begin());
}

void RunArchive::replace(const RunCurves& curves) {
  taken_back_.reset();
  if (!curves.loss.empty()) branch(curves);
}

void RunArchive::branch(const RunCurves& curves) {
  keep(curves);
  taken_back_.reset();
  ++number_;
}

void RunArchive::rewind(const RunCurves& curves, std::int64_t step) {
  if (!taken_back_ || last_step(*taken_back_) < step) taken_back_ = curves;
}

void RunArchive::change(const std::string& name, std::int64_t step) {
  if (taken_back_ && last_step(*taken_back_) > step) {
    taken_back_->run = name + " before the change at " + std::to_string(step);
    keep(*taken_back_);
  }
  taken_back_.reset();
}

std::string RunArchive::recognise(const std::string& checksum, std::int64_t step) {
  const auto [entry, fresh] = checksums_.try_emplace(checksum, number_, step);
  const int seen_by = entry->second.first;
  if (checksums_.size() > max_checksums) {
    checksum_interval_ *= 2;
    std::erase_if(checksums_, [&](const auto& seen) { return seen.second.second % checksum_interval_ != 0; });
  }
  return !fresh && seen_by != number_ ? "run " + std::to_string(seen_by) : "";
}

}  // namespace afterglow
