// A rehearsed step gives both directions; six evaluations of the operators give the forces.
#include "core/engine/analyses/forces/forces_measurement.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/engine/training/inspected_example.h"
#include "core/engine/training/surgery.h"
#include "core/io/error.h"
#include "core/layers/capture_reader.h"
#include "core/layers/layer_traits.h"

namespace afterglow {
namespace {

constexpr std::int64_t max_weights = 100'000'000;  ///< 0.8 GB in float64
/// |h d| / |w|: balances the second-order error (its square) against the rounding of float64 (its inverse).
constexpr double relative_reach = 1e-5;

/// Throws Error(bad_input) before any memory is allocated.
Trainer& small_enough(Trainer& trainer) {
  if (trainer.parameters().count() > max_weights)
    throw BadInput(
        "eigenvalue forces are computed in float64, for models with at most 100 million "
        "weights; this one is larger");
  return trainer;
}

/// Calls work(i) for every i below a large count, and `meanwhile`, if given, after each piece.
template <class Work>
void for_each_number(std::size_t count, const std::function<void()>& meanwhile, const Work& work) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  for (std::size_t begin = 0; begin < count; begin += piece) {
    for (std::size_t i = begin; i < std::min(begin + piece, count); ++i) work(i);
    if (meanwhile) meanwhile();
  }
}

double norm_of(const std::vector<double>& values, const std::function<void()>& meanwhile = {}) {
  double sum = 0;
  for_each_number(values.size(), meanwhile, [&](std::size_t i) { sum += values[i] * values[i]; });
  return std::sqrt(sum);
}

/// a + factor * d.
std::vector<double> moved(const std::vector<double>& a, double factor, const std::vector<double>& d,
                          const std::function<void()>& meanwhile = {}) {
  std::vector<double> result;
  result.reserve(a.size());
  for_each_number(a.size(), meanwhile, [&](std::size_t i) { result.push_back(a[i] + factor * d[i]); });
  return result;
}

/// (ahead - behind) / 2h.
std::vector<double> central_difference(const HeadOperator& ahead, const HeadOperator& behind, double h) {
  std::vector<double> change = moved(ahead.A, -1, behind.A);
  for (double& value : change) value /= 2 * h;
  return change;
}

InspectionSetup last_surgery(const TrainingRun& run) {
  InspectionSetup last;
  for (const TimedCommand& timed : run.recipe().commands) {
    if (timed.step < run.step() && timed.command.name == "surgery")
      last = parse_surgery(timed.command.value, run.trainer());
  }
  return last;
}

/// Targets of a surgery for one head; both eigenvalues of a pair.
std::vector<std::complex<double>> operated_of(const InspectionSetup& surgery, int layer, int head) {
  std::vector<std::complex<double>> places;
  const HeadIntervention changed = changes_of(surgery.interventions, layer, head);
  for (const auto& [name, edit] : changed.modes) {
    if (!edit.moved_to) continue;
    places.push_back(*edit.moved_to);
    if (edit.moved_to->imag() != 0) places.push_back(std::conj(*edit.moved_to));
  }
  return places;
}

/// Matches each mode with an eigenvalue of the operator after the step.
void find_after(HeadForces& forces, const HeadOperator& after) {
  std::vector<std::complex<double>> expected, found;
  for (const ModeForce& mode : forces.modes)
    expected.push_back(mode.step_is_small ? mode.value + mode.by_optimiser : mode.value);
  for (const ModeSensitivity& mode : mode_sensitivities(after.A, after.rank)) found.push_back(mode.value);
  const std::vector<int> meant = nearest_of_each(expected, found);
  for (std::size_t i = 0; i < meant.size(); ++i) {
    if (meant[i] >= 0) forces.modes[i].after = found[static_cast<std::size_t>(meant[i])];
  }
}

HeadForces forces_on(const HeadOperator& here, const std::vector<double>& down, const std::vector<double>& step,
                     const HeadOperator& after, const Spectra* numbered) {
  HeadForces forces{here.layer, here.head, norm_of(here.A), norm_of(step)};
  const std::vector<ModeSensitivity> modes = mode_sensitivities(here.A, here.rank);
  for (std::size_t i = 0; i < modes.size(); ++i) {
    ModeForce& force = forces.modes.emplace_back();
    force.value = modes[i].value;
    force.condition = modes[i].condition;
    force.by_loss = first_order_move(modes[i], down);
    force.by_optimiser = first_order_move(modes[i], step);
    force.is_defective = modes[i].condition >= defective_condition;
    force.step_is_small = first_order_holds(modes, i, step);
  }
  find_after(forces, after);
  std::vector<std::complex<double>> values;
  for (const ModeForce& mode : forces.modes) values.push_back(mode.value);
  const std::vector<int> numbers = track_modes(numbered_modes(numbered, here.layer, here.head), values);
  for (std::size_t i = 0; i < numbers.size(); ++i) forces.modes[i].number = numbers[i];
  return forces;
}

}  // namespace

ForcesMeasurement::ForcesMeasurement(const nlohmann::json& model, Trainer& trainer)
    : backend_(make_cpu_backend()),
      arena_(*backend_),
      tape_(*backend_, arena_),
      copy_(model, small_enough(trainer), *backend_, DType::f64) {}

void ForcesMeasurement::begin(TrainingRun& run, const Example& inspected) {
  copy_.follow();
  inspected_ = inspected;
  next_ = run.rehearse();
  surgery_ = last_surgery(run);
  numbered_ = run.numbered_modes(run.step());
  if (!next_.is_finite)
    throw Error(ExitCode::non_finite, "eigenvalue forces: a number of the next step is not finite, so nothing moves");
  ahead_.clear();
  operators_.clear();
  working_ = true;
}

void ForcesMeasurement::find_directions() {
  const auto take = [&](StoredNumbers& from) { return to_doubles(std::exchange(from, {}), meanwhile_); };
  weights_ = take(next_.weights);
  after_ = take(next_.after);
  down_ = take(next_.gradient);
  ahead_ = moved(after_, -1, weights_, meanwhile_);
  weight_change_ = norm_of(ahead_, meanwhile_);
  gradient_norm_ = norm_of(down_, meanwhile_);
  const double factor = gradient_norm_ > 0 ? -weight_change_ / gradient_norm_ : 0.0;
  for_each_number(down_.size(), meanwhile_, [&](std::size_t i) { down_[i] *= factor; });
  scale_ = weight_change_ > 0 ? relative_reach * norm_of(weights_, meanwhile_) / weight_change_ : 1;
}

std::vector<double> ForcesMeasurement::weights_of(Place place) const {
  if (place == Place::after) return after_;
  if (place == Place::down_ahead) return moved(weights_, scale_, down_, meanwhile_);
  if (place == Place::down_behind) return moved(weights_, -scale_, down_, meanwhile_);
  if (place == Place::step_ahead) return moved(weights_, scale_, ahead_, meanwhile_);
  if (place == Place::step_behind) return moved(weights_, -scale_, ahead_, meanwhile_);
  return weights_;
}

void ForcesMeasurement::set_yield(const std::function<void()>& work) {
  meanwhile_ = work;
  backend_->set_yield(work);
}

bool ForcesMeasurement::advance(const std::function<void()>& meanwhile) {
  if (!working_) return false;
  set_yield(meanwhile);
  const std::unique_ptr<ForcesMeasurement, void (*)(ForcesMeasurement*)> end(
      this, [](ForcesMeasurement* self) { self->set_yield({}); });
  if (ahead_.empty()) {
    find_directions();
    return true;
  }
  operators_.push_back(operators_at(weights_of(static_cast<Place>(operators_.size()))));
  working_ = operators_.size() < static_cast<std::size_t>(Place::count);
  if (!working_) fill();
  return working_;
}

std::vector<HeadOperator> ForcesMeasurement::operators_at(const std::vector<double>& weights) {
  copy_.put(weights, meanwhile_);
  tape_.begin(false);
  const auto [tokens, context] = uploaded(tape_, inspected_);
  const Capturing capturing(tape_);
  copy_.model().forward(tape_, tokens, context);
  const CaptureReader read(tape_, *backend_);
  std::vector<HeadOperator> operators;
  const auto& parts = copy_.trainer().parts();
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (!shows(parts[part].kind, LayerTrait::koopman_heads)) continue;
    const std::string name = parts[part].scope + ".A_w";
    const std::int64_t rank = read.shape(name).last();
    for (int head = 0; head < parts[part].heads; ++head)
      operators.push_back({static_cast<int>(part), head, static_cast<int>(rank),
                           read.tail(name, head, parts[part].heads, rank * rank)});
  }
  return operators;
}

void ForcesMeasurement::fill() {
  const auto at = [&](Place place) -> const std::vector<HeadOperator>& {
    return operators_[static_cast<std::size_t>(place)];
  };
  ForcesView view;
  view.step = step();
  view.loss = next_.loss;
  view.gradient_norm = gradient_norm_;
  view.weight_change = weight_change_;
  view.is_left_out = next_.is_left_out;
  for (std::size_t i = 0; i < at(Place::here).size(); ++i) {
    const std::vector<double> down = central_difference(at(Place::down_ahead)[i], at(Place::down_behind)[i], scale_),
                              step = central_difference(at(Place::step_ahead)[i], at(Place::step_behind)[i], scale_);
    view.heads.push_back(forces_on(at(Place::here)[i], down, step, at(Place::after)[i], numbered_.get()));
    view.heads.back().operated = operated_of(surgery_, view.heads.back().layer, view.heads.back().head);
    if (meanwhile_) meanwhile_();
  }
  view_ = std::make_shared<const ForcesView>(std::move(view));
}

AnalysisInfo forces_row() {
  constexpr auto begin = [](auto& measurement, const AnalysisSubject& of) {
    measurement.begin(*of.run, of.observer->example());
  };
  const auto make = [](AnalysisSubject& subject) {
    using Form = SpareTimeAnalysis<ForcesMeasurement, Analysis::forces, decltype(begin){}, &AnalysisResults::forces>;
    const bool has_ridge_systems = subject.observer && subject.observer->first_ska() >= 0;
    return has_ridge_systems ? make_of_any<Form, false>(subject) : make_of_any<AbsentAnalysis>(subject);
  };
  return {{AnalysisCost::piecewise, 0.25}, Analysis::forces, "eigenvalue forces", make};
}

}  // namespace afterglow
