// Curves that grow at their ends, views of their beginnings, and the trajectory decomposed by both strategies.
#include "core/engine/training/saved/run_record.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/analysis/kl_decompose.h"

namespace afterglow {
namespace {

constexpr std::int64_t dense_steps = 2000;   // rewinding within these must feel immediate
constexpr std::int64_t closest_frames = 10;  // steps between states if memory is no limit

std::vector<double> copy_of(const Values& values) { return {values.span().begin(), values.span().end()}; }

void append_all(GrowingCurve& curve, const std::vector<double>& values) {
  for (const double value : values) curve.append(value);
}

constexpr int max_eigenvalues = 32, max_modes = 8, max_coordinates = 3;
constexpr double kernel_rows = 64.0;  // tau of strategy B

TrajectoryModes modes_of(std::string strategy, const KlDecomposition& kl, std::span<const double> rows) {
  TrajectoryModes result;
  result.strategy = std::move(strategy);
  result.eigenvalues = kl.eigenvalues;
  result.reconstruction_error = kl_reconstruction_errors(kl, rows);
  for (int k = 0; k < std::min(max_modes, kl.count); ++k) {
    std::vector<double>& mode = result.modes.emplace_back();
    for (int t = 0; t < kl.rows; ++t) mode.push_back(kl.modes[static_cast<std::size_t>(t) * kl.count + k]);
  }
  return result;
}

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

Trajectory::Trajectory(std::int64_t planned)
    : interval_(std::max<std::int64_t>(1, (planned + max_rows - 1) / max_rows)) {}

void Trajectory::record(std::int64_t step, std::span<const double> summary) {
  if (step % interval_ != 0) return;
  // A prolonged run keeps the newest rows.
  if (rows_.steps.size() >= max_rows) {
    rows_.steps.erase(rows_.steps.begin());
    rows_.values.erase(rows_.values.begin(), rows_.values.begin() + static_cast<std::ptrdiff_t>(summary.size()));
  }
  rows_.steps.push_back(step);
  rows_.values.insert(rows_.values.end(), summary.begin(), summary.end());
}

void Trajectory::truncate(std::int64_t step) {
  if (rows_.steps.empty() || rows_.steps.back() <= step) return;
  const std::size_t width = rows_.values.size() / rows_.steps.size();
  while (!rows_.steps.empty() && rows_.steps.back() > step) rows_.steps.pop_back();
  rows_.values.resize(rows_.steps.size() * width);
}

TrajectoryRows Trajectory::rows(std::int64_t step) const {
  Trajectory known = *this;
  known.truncate(step);
  return known.rows_;
}

std::shared_ptr<const TrajectoryView> Trajectory::view(const std::string& summary, std::int64_t step) const {
  auto view = std::make_shared<TrajectoryView>();
  const TrajectoryRows known = rows(step);
  const std::vector<double>& values = known.values;
  view->step = known.steps.empty() ? 0 : known.steps.back();
  view->summary = summary;
  view->steps = known.steps;
  const int rows = static_cast<int>(known.steps.size());
  if (rows < 2) return view;
  view->width = static_cast<int>(values.size()) / rows;
  KlConfig config;
  config.components = std::min(max_eigenvalues, rows);
  const KlDecomposition empirical = kl_decompose(config, values, rows, view->width);
  if (empirical.count == 0) return view;
  view->empirical = modes_of("A: covariance", empirical, values);
  config.strategy = KlStrategy::kernel;
  config.tau = kernel_rows;
  view->kernel = modes_of("B: exponential kernel, τ 64 rows", kl_decompose(config, values, rows, view->width), values);
  view->variance = empirical.variance;
  view->explained = kl_explained_variance(empirical);
  for (int k = 0; k < std::min({max_coordinates, empirical.count, view->width}); ++k) {
    std::vector<double> coordinate = view->empirical.modes[static_cast<std::size_t>(k)];
    for (double& value : coordinate) value *= std::sqrt(rows * empirical.eigenvalues[static_cast<std::size_t>(k)]);
    view->path.push_back(std::move(coordinate));
  }
  return view;
}

void RunRecord::take(const RecordedPast& past) {
  first_step_ = past.first_step;
  append_all(loss_, past.loss);
  append_all(accuracy_, past.accuracy);
  append_all(learning_rate_, past.learning_rate);
  append_all(gradient_norm_, past.gradient_norm);
  for (std::size_t i = 0; i < layer_norms_.size(); ++i) append_all(layer_norms_[i], past.layer_gradient_norms[i]);
  append_all(held_out_steps_, past.held_out_steps);
  append_all(held_out_values_, past.held_out_values);
  path_.take(past.path);
  stops_ = past.stops;
}

RecordedPast RunRecord::past(std::int64_t step) const {
  const RunCurves known = curves(step);
  RecordedPast past;
  past.first_step = first_step_;
  past.loss = copy_of(known.loss);
  past.accuracy = copy_of(known.accuracy);
  past.learning_rate = copy_of(known.learning_rate);
  past.gradient_norm = copy_of(known.gradient_norm);
  for (const NamedCurve& layer : known.layer_gradient_norms) past.layer_gradient_norms.push_back(copy_of(layer.values));
  past.held_out_steps = copy_of(known.held_out_step);
  past.held_out_values = copy_of(known.held_out_accuracy);
  past.path = path_.rows(step);
  std::ranges::copy_if(stops_, std::back_inserter(past.stops), [&](const Stop& stop) { return stop.step <= step; });
  return past;
}

void RunRecord::append(const StepResult& result) {
  truncate(result.step - 1);
  loss_.append(result.loss);
  accuracy_.append(result.accuracy);
  learning_rate_.append(result.learning_rate);
  gradient_norm_.append(result.gradient_norm);
  for (std::size_t i = 0; i < layer_norms_.size(); ++i)
    layer_norms_[i].append(i < result.layer_gradient_norms.size() ? result.layer_gradient_norms[i] : 0.0);
}

void RunRecord::add_held_out(std::int64_t step, double value) {
  held_out_steps_.append(static_cast<double>(step));
  held_out_values_.append(value);
}

bool RunRecord::has_held_out(std::int64_t step) const {
  const Values steps = held_out_steps_.view();
  return std::ranges::binary_search(steps.span(), static_cast<double>(step));
}

void RunRecord::add_stop(const Stop& stop) {
  if (std::ranges::find(stops_, stop) != stops_.end()) return;
  stops_.insert(std::ranges::upper_bound(stops_, stop.step, {}, &Stop::step), stop);
}

void RunRecord::forget_failure(std::int64_t step) {
  std::erase_if(stops_, [&](const Stop& stop) { return stop.is_failure && stop.step >= step; });
}

void RunRecord::truncate(std::int64_t step) {
  const std::size_t size = size_until(step), held_out = held_out_until(step);
  for (GrowingCurve* curve : {&loss_, &accuracy_, &learning_rate_, &gradient_norm_}) curve->truncate(size);
  for (GrowingCurve& curve : layer_norms_) curve.truncate(size);
  held_out_steps_.truncate(held_out);
  held_out_values_.truncate(held_out);
  path_.truncate(step);
  std::erase_if(stops_, [&](const Stop& stop) { return stop.step > step; });
}

RunCurves RunRecord::curves(std::int64_t step) const {
  const std::size_t size = size_until(step);
  RunCurves curves;
  curves.first_step = first_step_;
  curves.loss = loss_.view().first(size);
  curves.accuracy = accuracy_.view().first(size);
  curves.learning_rate = learning_rate_.view().first(size);
  curves.gradient_norm = gradient_norm_.view().first(size);
  curves.held_out_step = held_out_steps(step);
  curves.held_out_accuracy = held_out_values(step);
  for (std::size_t i = 0; i < layer_norms_.size(); ++i)
    curves.layer_gradient_norms.push_back({names_[i], layer_norms_[i].view().first(size)});
  for (const Stop& stop : stops_) {
    if (stop.step <= step) curves.marks.push_back({stop.step, "stopped: " + stop.reason});
  }
  return curves;
}

std::size_t RunRecord::size_until(std::int64_t step) const {
  return static_cast<std::size_t>(std::max<std::int64_t>(0, step - first_step_ + 1));
}

std::size_t RunRecord::held_out_until(std::int64_t step) const {
  const Values steps = held_out_steps_.view();
  const auto later = std::ranges::upper_bound(steps.span(), static_cast<double>(step));
  return static_cast<std::size_t>(later - steps.span().begin());
}

}  // namespace afterglow
