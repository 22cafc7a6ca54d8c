// What is seen of a run, and when.
#include "core/engine/session/analysed_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/engine/observation/depth_view.h"
#include "core/engine/observation/theory_view.h"
#include "core/engine/probing/solver_problems.h"
#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {
constexpr std::int64_t min_spectrum_interval = 10;  // steps
constexpr std::size_t trail_length = 60;
}  // namespace

AnalysedRun::AnalysedRun(const SavedRun& moment, Backend& backend)
    : run_(make_run(moment, backend)),
      observer_(forecasts() ? nullptr : std::make_unique<Observer>(run_->trainer())),
      prober_(forecasts() ? nullptr : std::make_unique<InterventionRunner>(run_->trainer())),
      traced_part_(observer_ ? observer_->first_ska() : -1) {
  // The trail spans the whole run, and looking stays cheap beside the steps between.
  spectrum_interval_ =
      std::max(min_spectrum_interval, run_->recipe().training.steps / static_cast<std::int64_t>(trail_length));
  if (forecasts()) {
    history_.start(parse_probe_setup(moment.recipe.probe, {}));
    for (const TimedCommand& timed : moment.recipe.commands) {
      if (timed.command.name == "compare_runs") compare_runs(nlohmann::json::parse(timed.command.value));
    }
    return;
  }
  if (traced_part_ < 0 && run_->trainer().parts().size() > 2) traced_part_ = 1;
  history_.start(parse_probe_setup(moment.recipe.probe, prober_->intervention_targets()));
  observer_->choose(prober_->sequence_of(history_.now()));
  for (const TimedCommand& timed : moment.recipe.commands) {
    if (timed.command.name == "influence")
      influence_config_ = parse_influence(nlohmann::json::parse(timed.command.value), {});
  }
}

bool AnalysedRun::train_step() {
  const bool finite = run_->train_step();
  if (finite && observer_ && run_->step() % spectrum_interval_ == 0) record_spectra();
  return finite;
}

// Identities of modes follow from one frame of the trail to the next.
void AnalysedRun::record_spectra() {
  while (!spectrum_history_.empty() && spectrum_history_.back()->step >= run_->step()) spectrum_history_.pop_back();
  spectrum_history_.push_back(observer_->spectra(spectrum_history_.empty() ? nullptr : spectrum_history_.back().get()));
  if (spectrum_history_.size() > trail_length) spectrum_history_.pop_front();
  spectra_ = spectrum_history_.back();
}

void AnalysedRun::go_to(std::int64_t step) {
  if (step < run_->step()) {
    run_->go_to(step);
    while (!spectrum_history_.empty() && spectrum_history_.back()->step > step) spectrum_history_.pop_back();
    forget_moment();
    return;
  }
  while (run_->step() < step && train_step()) {
  }
}

void AnalysedRun::choose_probe(std::uint64_t index) {
  ProbeSetup setup = history_.now();
  setup.index = index;
  setup.tokens.clear();
  change_setup(std::move(setup), false);
}

void AnalysedRun::change_probe(const Command& command) {
  if (forecasts())
    throw Error(ExitCode::bad_input, command.name + ": a forecast has no tokens to change; choose another window");
  const nlohmann::json value = parse_json(command.value, "the value of " + command.name);
  ProbeSetup setup = history_.now();
  if (command.name != "probe_sequence") {
    apply_intervention(setup.interventions, command, prober_->intervention_targets());
  } else if (value.is_object() && value.contains("tokens")) {
    setup.tokens = parse_probe_setup({{"tokens", value["tokens"]}}, {}).tokens;
  } else {
    const Example& present = observer_->example();
    const auto last = static_cast<std::int64_t>(present.tokens.size()) - 1;
    refuse_unknown_keys(value, {"at", "token", "label"}, command.name);
    const std::int64_t at = get_integer(value, "at", std::nullopt, 0, last, command.name);
    setup.tokens.assign(present.tokens.begin(), present.tokens.end());
    setup.tokens[static_cast<std::size_t>(at)] = token_of(value);
  }
  change_setup(std::move(setup), value.is_object() && get_bool(value, "live", false, command.name));
}

/// By number, or by the text on its chip.
int AnalysedRun::token_of(const nlohmann::json& value) const {
  const Task& task = run_->trainer().task();
  if (!value.contains("label"))
    return static_cast<int>(get_integer(value, "token", std::nullopt, 0, task.vocab() - 1, "probe_sequence"));
  const std::string label = get_string(value, "label", std::nullopt, "probe_sequence");
  for (int token = 0; token < task.vocab(); ++token) {
    if (task.token_label(token) == label) return token;
  }
  throw Error(ExitCode::bad_input, "this task has no token \"" + label +
                                       "\"; tokens are written as on their chips, \"" +
                                       task.token_label(observer_->example().tokens.front()) + "\" for example");
}

void AnalysedRun::change_setup(ProbeSetup setup, bool is_live) {
  if (prober_) prober_->sequence_of(setup);  // refuses what cannot be asked
  const ProbeSetup before = history_.now();
  history_.change(std::move(setup), is_live, run_->undoable());
  take_setup(before);
}

/// Interventions belong to the probe alone; another sequence is another look at everything.
void AnalysedRun::take_setup(const ProbeSetup& before) {
  const ProbeSetup& now = history_.now();
  if (now.index != before.index || now.tokens != before.tokens) {
    if (observer_) observer_->choose(prober_->sequence_of(now));
    forget_looks();
  }
  probe_.reset();
  run_->note_probe(to_json(now));
}

bool AnalysedRun::undo() {
  if (history_.can_undo(run_->undoable())) return turn_setup(&ProbeHistory::undo);
  forget_looks();
  return run_->undo();
}

bool AnalysedRun::redo() {
  if (history_.can_redo(run_->undoable())) return turn_setup(&ProbeHistory::redo);
  forget_looks();
  return run_->redo();
}

bool AnalysedRun::turn_setup(void (ProbeHistory::*turn)()) {
  const ProbeSetup before = history_.now();
  (history_.*turn)();
  take_setup(before);
  return true;
}

void AnalysedRun::choose_trace(int part) {
  traced_part_ = part;
  probe_.reset();
  trace_.reset();
  token_weights_.reset();
  solvers_.reset();
}

void AnalysedRun::compare_runs(const nlohmann::json& value) {
  refuse_unknown_keys(value, {"path", "paths"}, "compare_runs");
  std::vector<std::string> paths = value.contains("paths") ? std::vector<std::string>{} : ensemble_.paths();
  if (value.contains("path")) paths.push_back(get_string(value, "path", std::nullopt, "compare_runs"));
  for (const nlohmann::json& path : value.value("paths", nlohmann::json::array())) {
    if (!path.is_string())
      throw Error(ExitCode::bad_input, "compare_runs.paths: expected names of snapshots, got " + path.dump());
    paths.push_back(path.get<std::string>());
  }
  if (!forecasts()) {
    if (paths.empty()) return;
    throw Error(ExitCode::bad_input, "compare_runs: only forecasts are laid over each other; open one first");
  }
  ForecastEnsemble chosen;
  for (const std::string& path : paths) {
    chosen.add(std::filesystem::absolute(path).string(), run_->recipe(), run_->trainer().backend());
  }
  ensemble_ = std::move(chosen);
  forecast_.reset();
  run_->note({"compare_runs", nlohmann::json{{"paths", ensemble_.paths()}}.dump()});
}

void AnalysedRun::choose_problem(std::optional<MadeProblem> problem) {
  made_problem_ = std::move(problem);
  if (solvers_) solvers_ = std::make_shared<const SolverView>(with_made(*solvers_, made_problem_));
}

void AnalysedRun::forget_looks() {
  spectrum_history_.clear();
  forget_moment();
}

// What was seen of the present step alone.
void AnalysedRun::forget_moment() {
  influence_is_stale_ = true;
  spectra_.reset();
  trace_.reset();
  token_weights_.reset();
  trajectory_.reset();
  forecast_.reset();
  memory_.reset();
  probe_.reset();
  if (prober_) prober_->forget();
  solvers_.reset();
  theory_is_stale_ = true;
}

bool AnalysedRun::spectra_are_current() const { return forecasts() || (spectra_ && spectra_->step == run_->step()); }
bool AnalysedRun::trace_is_current() const {
  return forecasts() ? forecast_ && forecast_->step == run_->step() : trace_ && trace_->step == run_->step();
}
bool AnalysedRun::probe_is_answered() const { return forecasts() || (probe_ && probe_->step == run_->step()); }
bool AnalysedRun::probe_is_current() const { return probe_is_answered() && !accuracy_is_old_; }
bool AnalysedRun::solvers_are_current() const { return forecasts() || (solvers_ && solvers_->step == run_->step()); }
void AnalysedRun::update_spectra() {
  if (observer_) spectra_ = observer_->spectra(spectrum_history_.empty() ? nullptr : spectrum_history_.back().get());
}
void AnalysedRun::update_trace() {
  if (forecasts()) {
    const auto probe = static_cast<std::int64_t>(history_.now().index);
    auto forecast = std::make_shared<ForecastView>(*run_->trainer().forecast_view(probe));
    ensemble_.compare(*forecast, run_->trainer(), probe);
    memory_ = forecast->memory;
    forecast_ = std::move(forecast);
    trajectory_ = run_->trajectory().view("pooled summary of a batch");
    return;
  }
  trace_ = observer_->trace(traced_part_);
  token_weights_ = observer_->token_weights(traced_part_);
  const bool has_memory = run_->trainer().model().memory() != nullptr;
  trajectory_ = run_->trajectory().view(has_memory ? "pooled summary of a batch" : "mean last hidden state of a batch");
  memory_ = observer_->memory();
}
void AnalysedRun::update_probe() {
  if (prober_) probe_ = prober_->look(history_.now(), traced_part_, spectra_.get());
  if (probe_) last_accuracy_ = probe_->accuracy_after;
  accuracy_step_ = run_->step();
  accuracy_is_old_ = false;
}
void AnalysedRun::answer_probe() {
  if (!prober_ || !last_accuracy_ || accuracy_step_ != run_->step()) return update_probe();
  probe_ = prober_->look(history_.now(), traced_part_, spectra_.get(), last_accuracy_);
  accuracy_is_old_ = !history_.now().interventions.empty();
}
void AnalysedRun::update_solvers() {
  if (!observer_) return;
  solvers_ = std::make_shared<const SolverView>(with_made(*observer_->solvers(traced_part_), made_problem_));
}

void AnalysedRun::choose_influence(const nlohmann::json& value) {
  influence_config_ = parse_influence(value, influence_config_);
  influence_is_stale_ = influence_is_awaited_ = true;
  run_->note({"influence", to_json(influence_config_).dump()});
}

bool AnalysedRun::influence_is_current() const {
  if (forecasts()) return true;
  return influence_ && !influence_is_stale_ && !influence_->working() && influence_->step() == run_->step();
}

// While training goes on a measurement is finished before the next begins; one of other settings is dropped.
void AnalysedRun::advance_influence() {
  if (forecasts()) return;
  if (!influence_) influence_ = std::make_unique<InfluenceMeasurement>(run_->recipe().model, run_->trainer());
  if (influence_->working() && !influence_is_stale_) {
    if (!influence_->advance()) influence_is_awaited_ = false;
    return;
  }
  influence_->config = influence_config_;
  influence_is_stale_ = false;
  influence_->begin(history_.now().index);
}

void AnalysedRun::measure_influence() {
  while (!influence_is_current()) advance_influence();
}

void AnalysedRun::choose_theory(int part, int head) {
  theory_is_stale_ = theory_is_stale_ || part != theory_part_ || head != theory_head_;
  theory_part_ = part;
  theory_head_ = head;
}

bool AnalysedRun::theory_is_current() const {
  return forecasts() || (!theory_is_stale_ && depth_ && depth_->step == run_->step());
}

void AnalysedRun::update_theory() {
  theory_is_stale_ = false;
  if (!prober_) return;
  theory_ = prober_->theory(history_.now(), theory_part_, theory_head_);
  depth_ = prober_->depth(history_.now());
}

Observation AnalysedRun::describe() const {
  const Trainer& trainer = run_->trainer();
  const Recipe recipe = run_->recipe();
  Observation now;
  now.preset = recipe.name;
  now.title = recipe.title;
  now.seed = recipe.seed;
  now.step = run_->step();
  now.final_step = trainer.config().steps;
  now.finished = run_->finished();
  now.stopped_non_finite = !run_->failure().empty();
  now.device = trainer.backend().description();
  now.precision = name_of(trainer.backend().precision());
  now.device_bytes = static_cast<std::int64_t>(trainer.backend().held_bytes());
  now.history_bytes = static_cast<std::int64_t>(run_->history().bytes());
  now.model.name = recipe.name;
  now.model.parameters = trainer.parameters().count();
  now.model.is_forecaster = forecasts();
  for (const ModelPart& part : trainer.parts()) {
    LayerSummary summary{part.label, part.scope, part.kind, part.detail, part.parameters, part.heads, 0};
    if (part.branch >= 0) {
      const Layer& layer = *trainer.model().branches()[static_cast<std::size_t>(part.branch)].layer;
      summary.state_bytes = layer.state_bytes(trainer.dtype(), trainer.task().length());
    }
    now.model.layers.push_back(std::move(summary));
  }
  now.task = trainer.task().describe();
  now.measures = trainer.measures();
  now.settings = trainer.settings();
  now.runs.push_back(run_->curves());
  now.spectra = spectra_;
  now.spectrum_history.assign(spectrum_history_.begin(), spectrum_history_.end());
  if (spectra_ && (spectrum_history_.empty() || spectrum_history_.back()->step < spectra_->step))
    now.spectrum_history.push_back(spectra_);
  now.trace = trace_;
  now.token_weights = token_weights_;
  if (influence_) now.influence = influence_->newest();
  now.trajectory = trajectory_;
  now.forecast = forecast_;
  now.memory = memory_;
  now.solvers = solvers_;
  now.probe = probe_;
  if (probe_) {
    now.theory = theory_;
    now.depth = depth_;
  }
  now.recipe = to_json(recipe).dump();
  return now;
}

}  // namespace afterglow
