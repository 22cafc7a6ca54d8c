// The divergence microscope: two trainings in lockstep from one state that differ in one thing, compared after each
// step. Equal trainings have distance zero, exactly.
#include <algorithm>
#include <limits>
#include <memory>

#include "core/analysis/influence/influence_fit.h"
#include "core/analysis/solvers/solvers.h"
#include "core/engine/analyses/requested_study.h"
#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/causes/hook_passes.h"
#include "core/engine/sweeps/recipe_run.h"
#include "core/engine/training/inspected_example.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/io/json.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/layers/host_values.h"

namespace afterglow {
namespace {

struct MicroscopeConfig {
  /// "same": nothing; "bit" or "bit NAME[INDEX]": the lowest bit of a weight; "token" or "token AT=TO": a token of the
  /// next batch's first sequence; "device=cpu", "precision=bf16"; else a field of the recipe, "learning_rate=0.002",
  /// "layers.0.gka.r=5".
  std::string change = "bit";
  std::int64_t from = -1;   ///< the last step without a difference; -1: the present one
  std::int64_t steps = 60;  ///< number of steps that are compared
  double ulps = 16;         ///< threshold of the first difference, in float32 units in the last place
  std::int64_t needed_step() const { return std::max<std::int64_t>(0, from); }
  static constexpr const char* command = "microscope";
  static constexpr ConfigField<MicroscopeConfig> fields[] = {{"change", &MicroscopeConfig::change},
                                                             {"from", &MicroscopeConfig::from, -1, max_steps},
                                                             {"steps", &MicroscopeConfig::steps, 1, 10'000},
                                                             {"ulps", &MicroscopeConfig::ulps, 0, 1e12}};
};

/// Without a step it begins at the present one, not at an earlier choice.
MicroscopeConfig read_microscope(const json& value, MicroscopeConfig before) {
  before.from = -1;
  return read_fields(value, before);
}

template <class... What>
[[noreturn]] void refuse_change(const What&... what) {
  throw BadInput("microscope: ", what...);
}

/// The text after "bit" or "token"; empty for the word alone; nullopt for another change.
std::optional<std::string> behind(const std::string& change, const std::string& word) {
  if (change == word) return "";
  if (change.starts_with(word + " ")) return change.substr(word.size() + 1);
  return std::nullopt;
}

/// The value of "device=cpu"; nothing for another key.
std::optional<std::string> value_of(const std::string& change, const std::string& key) {
  if (!change.starts_with(key + "=")) return std::nullopt;
  return change.substr(key.size() + 1);
}

std::int64_t whole_number(const std::string& text, const std::string& change) {
  const std::optional<std::int64_t> number = parse_whole_number(text);
  if (!number || *number < 0) refuse_change("\"", change, "\": \"", text, "\" is no whole number");
  return *number;
}

/// Both numbers of "AT=TO"; 1 = 0 for an empty text.
std::pair<std::int64_t, std::int64_t> token_change(const std::string& text) {
  if (text.empty()) return {1, 0};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) refuse_change("\"token ", text, "\": write token AT=TO, as token 5=17");
  return {whole_number(text.substr(0, equals), "token " + text),
          whole_number(text.substr(equals + 1), "token " + text)};
}

struct WeightPlace {
  std::string name;
  std::int64_t element = 0, offset = 0;  // in the parameter; of the parameter in the flat buffer
};

/// "NAME[INDEX]" or "NAME"; an empty text means the first weight of the second part, which is the first layer.
WeightPlace weight_of(const std::string& text, const ParameterStore& store) {
  WeightPlace place{text, 0, 0};
  if (text.empty()) place.name = store.all()[std::min<std::size_t>(1, store.all().size() - 1)].name;
  const std::size_t bracket = text.find('[');
  if (bracket != std::string::npos && text.ends_with(']')) {
    place.name = text.substr(0, bracket);
    place.element = whole_number(text.substr(bracket + 1, text.size() - bracket - 2), "bit " + text);
  }
  const Parameter* found = find_by(store.all(), place.name, &Parameter::name);
  if (!found) refuse_change("there is no weight \"", place.name, "\", but for example ", store.all().front().name);
  if (place.element >= found->shape.elements())
    refuse_change(place.name, " has ", found->shape.elements(), " weights, and no number ", place.element);
  place.offset = found->offset;
  return place;
}

/// Flips the lowest bit of one float32 weight.
void flip_bit(TrainingRun& run, const WeightPlace& place) {
  TrainerState state = run.trainer().save();
  std::byte& lowest =
      state.weights[static_cast<std::size_t>(place.offset + place.element) * sizeof(float)];  // little endian
  lowest ^= std::byte{1};
  run.trainer().restore(state);
}

/// The recipe with the change, if it is a field of the recipe.
Recipe recipe_of(const Recipe& recipe, const std::string& change) {
  if (change == "same" || behind(change, "bit") || behind(change, "token") || value_of(change, "device")) return recipe;
  if (const auto precision = value_of(change, "precision")) {
    Recipe changed = recipe;
    changed.precision = parse_precision(*precision);
    return changed;
  }
  return changed_recipe(recipe, {change}, "microscope, " + change);
}

/// |a - b| / |a|; 0 if they are equal, even if |a| is 0.
double distance_of(std::span<const double> a, std::span<const double> b) {
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return square == 0 ? 0 : std::sqrt(square) / frobenius_norm(a);
}

/// The result of one operation of a pass.
struct Computed {
  std::string place, operation;
  Shape shape;
  std::vector<double> values;
  const void* data;  // valid during the pass
};

/// The results of all operations of a pass over one sequence, in order.
std::vector<Computed> pass_of(Trainer& trainer, const Example& example) {
  std::vector<Computed> results;
  Tape& tape = trainer.evaluation_tape();
  Backend& backend = trainer.backend();
  tape.begin(false);
  const auto [tokens, context] = uploaded(tape, example);
  const TapeObserver results_of(tape, {.operations = true, .form = PassForm::unfused}, [&](const Hooked& at) {
    const Tensor& value = at.var.value;
    results.push_back({tape.scope(), std::string(at.last), value.shape, to_host(backend, value), value.data});
  });
  // A hook point names its value and knows the heads.
  const TapeObserver names_of(tape, {.values = true}, [&](const Hooked& at) {
    const auto is_there = [&](const Computed& result) {
      return result.data == at.var.value.data && result.shape.elements() == at.var.value.elements();
    };
    const auto found = std::find_if(results.rbegin(), results.rend(), is_there);
    if (found == results.rend()) return;
    found->place = at.name;
    found->shape = at.var.shape();
  });
  trainer.model().forward(tape, tokens, context);
  return results;
}

/// A unit in the last place of the result's largest number.
double unit_of(const Computed& result) {
  double largest = std::numeric_limits<float>::min();
  for (const double value : result.values) largest = std::max(largest, std::abs(value));
  const auto rounded = static_cast<float>(largest);
  return static_cast<double>(std::nextafter(rounded, INFINITY) - rounded);
}

/// The first number that differs by more; results are [1,T,..] with heads as the third of four axes.
std::optional<FirstDifference> difference(const Computed& a, const Computed& b, double most) {
  const double unit = unit_of(a);
  for (std::size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i) {
    const double ulps = std::abs(a.values[i] - b.values[i]) / unit;
    if (ulps <= most) continue;
    const auto index = static_cast<std::int64_t>(i);
    const std::int64_t width = a.shape.last(), of_token = a.shape.elements() / a.shape[1];
    FirstDifference found;
    found.place = a.place;
    found.operation = a.operation;
    found.token = static_cast<int>(index / of_token);
    found.head = a.shape.rank() == 4 ? static_cast<int>(index % of_token / width) : -1;
    found.ulps = ulps;
    return found;
  }
  return std::nullopt;
}

/// Least-squares slope of ln(distance) over the steps with a positive distance.
double slope_of(const std::vector<double>& steps, const std::vector<double>& distances) {
  std::vector<double> lags;  // from 1 on: the slope is that of the steps
  for (const double step : steps) lags.push_back(step - steps.front() + 1);
  const InfluenceFit fit = fit_influence(lags, distances);
  return fit.points >= 2 ? fit.exponential.slope : unknown;
}

std::string text_of(const MicroscopeConfig& config, const ParameterStore& store) {
  if (config.change == "same") return "nothing";
  if (const auto weight = behind(config.change, "bit")) {
    const WeightPlace place = weight_of(*weight, store);
    return "one bit of " + place.name + "[" + std::to_string(place.element) + "]";
  }
  if (const auto token = behind(config.change, "token")) {
    const auto [at, to] = token_change(*token);
    return "token " + std::to_string(at) + " of the next batch's first sequence";
  }
  return config.change;
}

class Microscope : public Study<MicroscopeConfig, MicroscopeView> {
 public:
  /// `run` must have a state at or before `from`. Throws Error(bad_input) for an impossible change.
  Microscope(const TrainingRun& run, MicroscopeConfig config) : Study(std::move(config)) {
    if (config_.from < 0) config_.from = run.step();
    if (config_.from < run.oldest_step() || config_.from > run.latest_step())
      refuse_change("step ", config_.from, " is not in this run; choose one from ", run.oldest_step(), " to ",
                    run.latest_step());
    start_ = *run.kept_snapshot(config_.from);
    start_.recipe = training_of(start_.recipe);
    changed_ = recipe_of(start_.recipe, config_.change);
    if (const auto token = behind(config_.change, "token")) {
      const auto [at, to] = token_change(*token);
      const Task& task = run.trainer().task();
      if (at >= task.length() || to >= task.vocab())
        refuse_change("a sequence has tokens 0 to ", task.length() - 1, ", numbered below ", task.vocab());
    }
    change_view([&](MicroscopeView& view) {
      view.name = start_.recipe.name;
      view.change = text_of(config_, run.trainer().parameters());
      view.from = config_.from;
      view.until = config_.from + config_.steps;
      view.ulps = config_.ulps;
      for (const ModelPart& part : run.trainer().parts()) {
        view.parts.push_back(part.label);
        view.kinds.push_back(part.kind);
      }
      view.distance.resize(view.parts.size());
      view.slope = unknown;
    });
  }

  /// Whether `recipe` describes the training that is compared.
  bool is_of(const Recipe& recipe) const { return common_step(start_.recipe, recipe) >= config_.from; }
  bool is_complete() const { return view_->is_complete; }
  double share_done() const { return static_cast<double>(view_->step.size()) / static_cast<double>(config_.steps + 1); }

  /// A step towards `from`, or one of both and their comparison; false if all are compared.
  bool advance(Backend& backend) {
    if (is_complete()) return false;
    if (!first_) first_ = std::make_unique<TrainingRun>(start_, backend, 0);
    const auto step = [](TrainingRun& run) {
      if (!run.train_step()) throw Error(ExitCode::non_finite, "microscope: ", run.failure());
    };
    if (!second_ && first_->step() < config_.from) {
      step(*first_);
      return true;
    }
    if (second_) {
      step(*first_);
      step(*second_);
    } else {
      part();
    }
    compare();
    return !is_complete();
  }

 private:
  /// The second training begins from the first one's state.
  void part() {
    Backend& backend = first_->trainer().backend();
    const auto device = value_of(config_.change, "device");
    if (device || value_of(config_.change, "precision"))
      second_backend_ = make_backend(device.value_or(backend.name()), 0);
    if (second_backend_ && !second_backend_->set_precision(changed_.precision))
      refuse_change(second_backend_->description(), " has no such precision; choose another one or another device");
    Snapshot from = first_->snapshot();
    from.where = "microscope, " + config_.change;
    from.recipe = changed_;
    second_ = std::make_unique<TrainingRun>(from, second_backend_ ? *second_backend_ : backend, 0);
    if (const auto weight = behind(config_.change, "bit"))
      flip_bit(*second_, weight_of(*weight, second_->trainer().parameters()));
    if (const auto token = behind(config_.change, "token")) {
      const auto [at, to] = token_change(*token);
      if (!second_->trainer().change_token(at, static_cast<std::int32_t>(to)))
        refuse_change("the batches of this run hold no tokens");
    }
  }

  void compare() {
    const ParameterStore& store = first_->trainer().parameters();
    const std::vector<double> a = store.download(store.values());
    const ParameterStore& other = second_->trainer().parameters();
    const std::vector<double> b = other.download(other.values());
    const auto& parts = first_->trainer().parts();
    change_view([&](MicroscopeView& view) {
      for (std::size_t part = 0; part < parts.size(); ++part) {
        const auto begin = static_cast<std::size_t>(parts[part].offset);
        const std::size_t end = part + 1 < parts.size() ? static_cast<std::size_t>(parts[part + 1].offset) : a.size();
        view.distance[part].push_back(
            distance_of(std::span(a).subspan(begin, end - begin), std::span(b).subspan(begin, end - begin)));
      }
      view.step.push_back(static_cast<double>(first_->step()));
      view.whole.push_back(distance_of(a, b));
      view.slope = slope_of(view.step, view.whole);
      view.is_complete = first_->step() >= view.until;
    });
    if (view_->first.step < 0) compare_passes();
  }

  /// For tokens only; a forecaster has no hook points.
  void compare_passes() {
    Trainer& trainer = first_->trainer();
    if (trainer.forecast() != nullptr) return;
    const Example example = trainer.task().example(trainer.seed(), 0, Split::held_out);
    const std::vector<Computed> a = pass_of(trainer, example), b = pass_of(second_->trainer(), example);
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      std::optional<FirstDifference> found = difference(a[i], b[i], config_.ulps);
      if (!found) continue;
      found->step = first_->step();
      return change_view([&](MicroscopeView& view) { view.first = *found; });
    }
  }

  Snapshot start_;                           // at or before the first step
  Recipe changed_;                           // of the second training
  std::unique_ptr<Backend> second_backend_;  // of the second training if device or precision differ
  std::unique_ptr<TrainingRun> first_, second_;
};

}  // namespace

AnalysisInfo microscope_row() {
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const MicroscopeConfig config = subject.chosen<RequestedStudy<Microscope>>().config.value_or(MicroscopeConfig());
    return {tokens_of_training(subject, 2 * static_cast<double>(config.steps)), 0, 0};
  };
  return request_row<Microscope, &AnalysisResults::microscope, Analysis::microscope, read_microscope>("microscope",
                                                                                                      work);
}

}  // namespace afterglow
