// Counts steps and seconds, chooses which curves and checksums are kept, and takes the list of parts from the recipe.
#include "core/engine/session/session_parts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

constexpr double speed_seconds = 0.5;  // minimal interval over which the speed is averaged
constexpr std::array<double, 8> speed_limits{1, 2, 5, 10, 20, 50, 100, 0};

constexpr std::size_t max_runs = 32;
constexpr std::size_t max_checksums = 4096;  // above it the interval doubles and every other checksum is dropped

}  // namespace

void RunControl::start(std::int64_t until) {
  pause_at_ = until;
  running_ = true;
  stopped_non_finite_ = false;
  rebuilds_to_ = -1;
}

void RunControl::train_more(std::int64_t count, std::int64_t step) {
  start((running_ && pause_at_ >= 0 ? pause_at_ : step) + count);
}

void RunControl::open(std::optional<std::int64_t> until) {
  compared_.clear();
  rest(false);
  pause_at_ = -1;
  if (until) rebuild(*until);
}

void RunControl::change_speed(std::int64_t by) {
  const auto last = static_cast<std::int64_t>(speed_limits.size()) - 1;
  std::int64_t now = last;
  for (std::int64_t i = last; speed_limit_ > 0 && i-- > 0;) {
    if (speed_limits[static_cast<std::size_t>(i)] >= speed_limit_) now = i;
  }
  limit_speed(speed_limits[static_cast<std::size_t>(std::clamp<std::int64_t>(now + by, 0, last))]);
}

std::optional<ComparedRun> RunControl::next_compared() {
  if (compared_.empty()) return std::nullopt;
  ComparedRun next = std::move(compared_.front());
  compared_.pop_front();
  return next;
}

void RunControl::measure_speed(std::int64_t step, double seconds) {
  const double elapsed = seconds - clock_start_;
  if (elapsed < speed_seconds) return;
  steps_per_second_ = static_cast<double>(step - clock_step_) / elapsed;
  restart_clock(step, seconds);
}

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

ArrivingModel::ArrivingModel(const Recipe& recipe) {
  ParameterStore declared;
  parts_ = make_objective(recipe, declared)->parts(declared);
  is_there_.assign(parts_.size(), false);
}

bool ArrivingModel::note(const Parameter& parameter) {
  const auto next = std::ranges::upper_bound(parts_, parameter.offset, {}, &ModelPart::offset);
  is_there_[static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, next - parts_.begin() - 1))] = true;
  const std::size_t before = shown_;
  while (shown_ < is_there_.size() && is_there_[shown_]) ++shown_;
  return shown_ > before;
}

ModelSummary ArrivingModel::summary() const {
  ModelSummary model;
  for (std::size_t i = 0; i < shown_; ++i) {
    const ModelPart& part = parts_[i];
    model.layers.push_back({part.label, part.scope, part.kind, part.detail, part.parameters, part.heads, 0});
    model.parameters += part.parameters;
  }
  return model;
}

}  // namespace afterglow
