// Which curves and checksums are kept.
#include "core/engine/session/run_archive.h"

#include "core/recipe/recipe.h"

namespace afterglow {
namespace {
constexpr std::size_t max_runs = 32;
constexpr std::size_t max_checksums = 4096;  // above it the interval doubles and every other checksum is dropped
}  // namespace

void RunArchive::keep(EarlierRun run) {
  run.recipe.shown_step = run.curves.first_step - 1 + static_cast<std::int64_t>(run.curves.loss.size());
  run.curves.siblings = siblings_key(run.recipe);
  run.curves.seed = run.recipe.seed;
  runs_.push_back(std::move(run));
  if (runs_.size() > max_runs) runs_.erase(runs_.begin());
}

void RunArchive::replace(EarlierRun present) {
  for (EarlierRun& run : runs_) run.curves.parted = -1;
  if (!present.curves.loss.empty()) branch(std::move(present), -1);
}

void RunArchive::branch(EarlierRun present, std::int64_t step) {
  present.curves.parted = step;
  keep(std::move(present));
  ++number_;
}

void RunArchive::change(EarlierRun former, std::int64_t step) {
  former.curves.run += " before the change at " + std::to_string(step);
  former.curves.parted = step;
  keep(std::move(former));
}

bool RunArchive::discard(const std::string& name) {
  const auto found =
      std::find_if(runs_.rbegin(), runs_.rend(), [&](const EarlierRun& run) { return run.curves.run == name; });
  if (found == runs_.rend()) return false;
  runs_.erase(std::prev(found.base()));
  return true;
}

std::optional<EarlierRun> RunArchive::take_newest() {
  if (runs_.empty()) return std::nullopt;
  EarlierRun newest = std::move(runs_.back());
  runs_.pop_back();
  return newest;
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
