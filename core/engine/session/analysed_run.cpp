// Walks the table of analyses and invalidates what a change affects.
#include "core/engine/session/analysed_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

ModelSummary summary_of(const Trainer& trainer) {
  ModelSummary model;
  model.parameters = trainer.parameters().count();
  model.is_forecaster = trainer.forecast() != nullptr;
  model.reads_text = trainer.task().tokenizer() != nullptr;
  for (const ModelPart& part : trainer.parts()) {
    LayerSummary summary{part.label, part.scope, part.kind, part.detail, part.parameters, part.heads, 0};
    if (part.branch >= 0) {
      const Layer& layer = trainer.layer_of(part);
      summary.state_bytes = layer.state_bytes(trainer.dtype(), trainer.task().length());
    }
    model.layers.push_back(std::move(summary));
  }
  return model;
}

/// Why float32 cannot solve a head's ridge system; empty while it can. The layer retries a failed factorisation with a
/// larger ridge, so κ alone rarely shows the failure.
std::string ill_conditioned(const Spectra& spectra) {
  for (const HeadSpectrum& head : spectra.heads) {
    const std::string which = "head " + std::to_string(head.head);
    if (head.jitter > 0) return "float32 could not factorise the ridge system of " + which;
    if (head.kappa > kappa_limit("fp32")) return "kappa of " + which + " is too large for float32";
  }
  return "";
}

/// The sequence and the moved eigenvalues as `surgery` takes them; null if none is moved.
nlohmann::json moves_of(InspectionSetup setup) {
  Interventions moves;
  for (const auto& [part, layer] : setup.interventions.layers) {
    for (const auto& [head, edits] : layer.heads) {
      for (const auto& [name, edit] : edits.modes) {
        if (!edit.moved_to) continue;
        ModeEdit& move = moves.layers[part].heads[head].modes[name] = edit;
        move.is_off = false;
      }
    }
  }
  if (moves.empty()) return nullptr;
  setup.interventions = moves;
  setup.pair = {};
  setup.transplant = {};
  setup.scale_kept_behind = -1;
  return to_json(setup);
}

RunStatus status_of(const TrainingRun& run) {
  const Trainer& trainer = run.trainer();
  const Recipe recipe = run.recipe();
  RunStatus now;
  now.preset = recipe.name;
  now.title = recipe.title;
  now.seed = recipe.seed;
  now.step = run.step();
  now.final_step = trainer.config().steps;
  now.oldest_step = run.oldest_step();
  now.latest_step = run.latest_step();
  now.kept = run.kept();
  if (run.folder()) {
    now.folder = run.folder()->view();
    now.final_step = std::max(now.final_step, run.folder()->planned_steps());  // its log has grown since it was opened
  }
  now.journal = run.journal().times();
  now.finished = run.finished();
  now.stopped_non_finite = !run.failure().empty();
  now.device = trainer.backend().description();
  now.precision = name_of(trainer.backend().precision());
  now.device_bytes = static_cast<std::int64_t>(trainer.backend().held_bytes());
  now.history_bytes = static_cast<std::int64_t>(run.history().bytes());
  now.task = trainer.task().describe();
  now.measures = trainer.measures();
  if (!run.folder()) now.settings = trainer.settings();  // `set` refuses to change what another program trains
  now.runs.push_back(run.curves());
  for (const auto& [step, command] : recipe.commands) {
    if (command.name == StopConfig::command) now.stop_when = command.value.value("condition", "");
  }
  now.recipe = carried_text(recipe);
  now.notes = notes_of(recipe);
  return now;
}

}  // namespace

AnalysedRun::AnalysedRun(const SavedRun& saved, Backend& backend, std::size_t history_limit)
    : TrainingRun(saved, backend, history_limit) {
  subject_.run = this;
  subject_.evaluated = &trainer();
  if (oldest_step() == 0) is_ill_conditioned_ = false;
  if (!forecasts()) {
    subject_.observer = subject_.recorder = std::make_shared<Observer>(trainer());
    subject_.inspector = std::make_unique<InterventionRunner>(trainer());
    // A separate observer with a fixed sequence: what the user inspects must not change the numbers of modes.
    number_modes([observer = std::make_shared<Observer>(trainer())](const Spectra* before) {
      return observer->spectra(before);
    });
  }
  take_choices(saved.recipe);
  for (const AnalysisInfo& row : analysis_table()) analyses_.push_back(row.make(subject_));
  take_commands(saved.recipe);
}

void AnalysedRun::take_choices(const Recipe& recipe) {
  subject_.traced_part = subject_.observer ? subject_.observer->first_ska() : -1;
  if (subject_.observer && subject_.traced_part < 0 && trainer().parts().size() > 2) subject_.traced_part = 1;
  subject_.theory_part = -1;
  subject_.theory_head = 0;
  journal().forget(Journal::Scope::inspection);
  subject_.inspected = std::make_unique<InspectionEditor>(recipe.inspected, trainer().task(), subject_.inspector.get());
  choose_sequence();
}

void AnalysedRun::choose_sequence() {
  if (!subject_.observer) return;
  const Example sequence = subject_.inspector->sequence_of(subject_.inspected->now());
  subject_.recorder->choose(sequence);
  if (subject_.observer != subject_.recorder) subject_.observer->choose(sequence);
}

// Must run before the first analysis, because analyses keep pointers to the trainer. If memory is short, nothing has
// changed.
void AnalysedRun::analyse_on_side_stream(Backend& backend, OverlappedWork meanwhile) {
  auto copy = std::make_unique<Trainer>(trainer(), backend);
  auto observer = std::make_shared<Observer>(*copy);
  subject_.inspector = std::make_unique<InterventionRunner>(*copy);
  subject_.observer = std::move(observer);
  subject_.evaluated = copy.get();
  evaluation_copy_ = std::move(copy);
  overlapped_ = std::move(meanwhile);
  take_choices(recipe());
}

void AnalysedRun::take_commands(const Recipe& recipe) {
  notes_of(recipe);  // refuses damaged ones
  for (const auto& [step, command] : recipe.commands) {
    const AnalysisSettings* settings = find_settings(command.name);
    const bool is_of_analysis = settings && settings->replay;
    if (!is_of_analysis && command.name != "stop_when" && command.name != "measure") continue;
    if (command.name == "stop_when") choose_stop(command.value);
    if (command.name == "measure") choose_part(command.value);
    if (is_of_analysis) settings->replay(subject_, command.value);
  }
}

void AnalysedRun::write_note(const nlohmann::json& value) {
  const auto write = [this](const nlohmann::json& list) { note({"note", {{"notes", list}}}); };
  const auto change = [this, write, list = changed_notes(note_list(recipe()), value, step())]() -> Journal::Undo {
    const nlohmann::json before = note_list(recipe());
    write(list);
    return [write, before] { write(before); };
  };
  journal().perform(Journal::Scope::inspection, change);
}

void AnalysedRun::note_settings(const AnalysisSettings& settings) {
  if (settings.written) note({std::string(settings.command), settings.written(subject_)});
}

void AnalysedRun::choose_as(const Recipe& recipe) {
  take_choices(recipe);
  for (const AnalysisInfo& row : analysis_table()) {
    if (row.settings.reset) row.settings.reset(subject_);
  }
  take_commands(recipe);
  const std::vector<TimedCommand> recorded = this->recipe().commands;
  for (const TimedCommand& timed : recorded) {
    const AnalysisSettings* settings = find_settings(timed.command.name);
    if (settings && settings->reset) note_settings(*settings);
  }
  note_inspection(to_json(subject_.inspected->now()));
  for (const AnalysisInfo& row : analysis_table()) invalidate(row.analysis);
  forget_results(step());
}

/// Reads the spectra that number the modes: they exist anyway and do not depend on what the user inspects.
void AnalysedRun::judge_conditioning() {
  conditioning_.reset();
  const std::shared_ptr<const Spectra> found = numbered_modes(step());
  if (!found || found->step != step()) return;
  const std::string reason = ill_conditioned(*found);
  const bool was_known = is_ill_conditioned_.has_value(), was_ill = is_ill_conditioned_.value_or(false);
  is_ill_conditioned_ = !reason.empty();
  if (was_known && !was_ill && *is_ill_conditioned_) conditioning_ = reason;
}

void AnalysedRun::after_step() {
  for (const auto& analysis : analyses_) analysis->after_step();
  judge_conditioning();
}

void AnalysedRun::make_urgent(AnalysisSet analyses) {
  for (const AnalysisInfo& row : analysis_table()) {
    if (has(analyses, row.analysis)) find(row.analysis).make_urgent();
  }
}
void AnalysedRun::release(AnalysisSet unseen) {
  for (const AnalysisInfo& row : analysis_table()) {
    if (has(unseen, row.analysis)) find(row.analysis).release();
  }
  trainer().release_analysis_memory();
  subject_.evaluated->release_analysis_memory();
}

void AnalysedRun::estimate_work() {
  if (!pace_ && subject_.observer && trainer().is_large()) pace_ = measure_pace(*subject_.evaluated);
}

void AnalysedRun::limit_work() {
  if (!subject_.observer || !trainer().is_large()) return;
  const auto is_choice = [](const TimedCommand& timed) { return timed.command.name == "measure"; };
  if (std::ranges::any_of(recipe().commands, is_choice)) return;
  for (const AnalysisInfo& row : analysis_table()) {
    const ModelWork work = row.work ? row.work(subject_) : ModelWork();
    if (work.first > 0) subject_.parts[place_of(row.analysis)] = first_part(work, trainer().parameters().count());
  }
  note_parts();
}

bool AnalysedRun::has_parts(Analysis analysis) const {
  const AnalysisInfo& row = info_of(analysis);
  const double first = row.work ? row.work(subject_).first : 0;
  return first > 0 && first < 1;
}

/// Lists those that are not computed whole: {"patch grid": 0.01}.
void AnalysedRun::note_parts() {
  nlohmann::json parts = nlohmann::json::object();
  for (const AnalysisInfo& row : analysis_table()) {
    const double part = subject_.part_of(row.analysis);
    if (part < 1) parts[std::string(row.name)] = part;
  }
  note({"measure", {{"parts", parts}}});
}

void AnalysedRun::choose_part(const nlohmann::json& value) {
  const std::string where = "measure";
  refuse_unknown_keys(value, {"analysis", "part", "parts"}, where);
  const auto choose = [&](const std::string& name, double part) {
    const Analysis chosen =
        entry_named(analysis_table(), name, &AnalysisInfo::name, ExitCode::bad_input, "measure: there is no analysis ")
            .analysis;
    subject_.parts[place_of(chosen)] = part;
  };
  if (value.contains("parts")) {
    subject_.parts = whole_parts();
    for (const auto& [name, part] : value["parts"].items())
      choose(name, get_number(value["parts"], name.c_str(), 1.0, 0.0, 1.0, where));
  }
  if (value.contains("analysis"))
    choose(get_string(value, "analysis", std::nullopt, where), get_number(value, "part", 1.0, 0.0, 1.0, where));
  note_parts();
}

namespace {

/// Lets training go on while an analysis waits for its device and between its decompositions; ends that when it leaves
/// scope.
class OverlapScope : Immovable {
 public:
  OverlapScope(AnalysisSubject& subject, const OverlappedWork& meanwhile)
      : subject_(&subject), overlapped_(&meanwhile) {
    // An analysis may decompose matrices in another thread; training must stay on this one.
    set([&work = meanwhile.work, here = std::this_thread::get_id()] {
      if (std::this_thread::get_id() == here) work();
    });
  }
  ~OverlapScope() {
    set({});
    overlapped_->end();
  }

 private:
  void set(const std::function<void()>& work) {
    subject_->meanwhile = work;
    subject_->evaluated->backend().set_yield(work);
    subject_->evaluated->analysis_threads().set_yield(work);
  }
  AnalysisSubject* subject_;
  const OverlappedWork* overlapped_;
};

}  // namespace

AnalysisState AnalysedRun::state(Analysis analysis) const {
  AnalysisState now = find(analysis).state();
  if (now.has_work() && subject_.part_of(analysis) == 0) now.phase = AnalysisPhase::idle;
  return now;
}

void AnalysedRun::advance(Analysis analysis, Budget budget, bool may_train) {
  std::optional<OverlapScope> work;
  if (evaluation_copy_) evaluation_copy_->follow(trainer());
  if (evaluation_copy_ && may_train) work.emplace(subject_, overlapped_);
  RunAnalysis& one = find(analysis);
  if (budget == Budget::piece || info_of(analysis).cost != AnalysisCost::piecewise) return one.advance(budget);
  while (one.state().has_work()) one.advance(budget);
}

void AnalysedRun::invalidate(Analysis analysis) { find(analysis).invalidate(); }

void AnalysedRun::bring_up_to_date(AnalysisSet analyses, const std::function<void()>& after_piece) {
  for (const AnalysisInfo& row : analysis_table()) {
    if (!has(analyses, row.analysis)) continue;
    const bool has_pieces = row.cost == AnalysisCost::piecewise;
    for (bool is_left = has_work(row.analysis); is_left; is_left = has_pieces && has_work(row.analysis)) {
      advance(row.analysis, has_pieces ? Budget::piece : Budget::whole, false);
      if (after_piece) after_piece();
    }
  }
}

void AnalysedRun::choose_inspected(const nlohmann::json& value) { edit_inspection(subject_.inspected->chosen(value)); }

void AnalysedRun::change_inspection(const Command& command) {
  const bool may_write = command.name == "probe_sequence" && subject_.inspector;
  const std::shared_ptr<const Spectra> numbered = may_write ? subject_.numbered() : nullptr;
  edit_inspection(subject_.inspected->changed(command, numbered.get()), command.name, is_live(command));
}

void AnalysedRun::edit_inspection(InspectionSetup to, const std::string& gesture, bool is_live) {
  if (to == subject_.inspected->now()) {
    if (!is_live) journal().end_gesture();
    return;
  }
  const auto change = [this, to = std::move(to)]() -> Journal::Undo {
    const InspectionSetup before = subject_.inspected->now();
    take_inspection(to);
    return [this, before] { take_inspection(before); };
  };
  journal().perform(Journal::Scope::inspection, change, gesture, is_live);
}

void AnalysedRun::ask(const Command& command) {
  if (edits_inspection(command.name)) return change_inspection(command);
  if (command.name == "probe") return choose_inspected(command.value);
  if (command.name == "measure") return choose_part(command.value);
  choose(command.name, command.value);
}

void AnalysedRun::choose(std::string_view command, const nlohmann::json& value) {
  if (const AnalysisSettings* settings = find_settings(command)) {
    const AnalysisSet changed = settings->choose(subject_, value);
    for (const AnalysisInfo& row : analysis_table()) {
      if (has(changed, row.analysis)) invalidate(row.analysis);
    }
    return note_settings(*settings);
  }
  std::set<std::string> names{"measure", "probe"};
  for (const AnalysisInfo& row : analysis_table())
    if (row.settings.choose) names.emplace(row.settings.command);
  for (const CommandSpec& spec : command_table())
    if (spec.edits_inspection) names.emplace(spec.name);
  throw BadInput(command, " is not a command that analyses a model; choose one of ", joined(names, ", "));
}

std::optional<Recipe> AnalysedRun::opened_by(const Command& command) const {
  const AnalysisSettings* settings = find_settings(command.name);
  if (!settings || !settings->opened) return std::nullopt;
  return settings->opened(subject_, command.value);
}

/// Another sequence invalidates every analysis; interventions only those that show them.
void AnalysedRun::take_inspection(const InspectionSetup& now) {
  const InspectionSetup before = subject_.inspected->now();
  subject_.inspected->take(now);
  if (now.index != before.index || now.tokens != before.tokens || now.task != before.task) {
    choose_sequence();
    forget_results();
  }
  for (const Analysis analysis : {Analysis::inspected, Analysis::over_training}) invalidate(analysis);
  if (now.scale_kept_behind != before.scale_kept_behind) invalidate(Analysis::trace);
  if (now.pair != before.pair) {
    for (const Analysis analysis : {Analysis::patch, Analysis::logit_lens}) invalidate(analysis);
  }
  if (now.pair != before.pair || now.transplant != before.transplant) invalidate(Analysis::transplant);
  note_inspection(to_json(now));
}

bool AnalysedRun::inspection_moves_eigenvalues() const { return !moves_of(subject_.inspected->now()).is_null(); }

void AnalysedRun::operate(const nlohmann::json& value) {
  const InspectionSetup before = subject_.inspected->now();
  InspectionSetup after = before;
  if (value.empty()) after.interventions = {};
  const auto change = [this, before, after, surgery = value.empty() ? moves_of(before) : value]() -> Journal::Undo {
    Journal::Undo undo = TrainingRun::operate(surgery);
    forget_results(step() - 1);
    take_inspection(after);
    after_step();
    return [this, before, undo = std::move(undo)] {
      undo();
      take_inspection(before);
    };
  };
  journal().perform(Journal::Scope::run, change);
}

bool AnalysedRun::undo() {
  const auto scope = journal().undo();
  if (scope == Journal::Scope::run) forget_results();
  return scope.has_value();
}

bool AnalysedRun::redo() {
  const auto scope = journal().redo();
  if (scope == Journal::Scope::run) forget_results();
  return scope.has_value();
}

void AnalysedRun::choose_trace(int part) {
  subject_.traced_part = part;
  for (const Analysis analysis : {Analysis::trace, Analysis::inspected, Analysis::solvers, Analysis::readout})
    invalidate(analysis);
}

void AnalysedRun::choose_theory(int part, int head) {
  if (part == subject_.theory_part && head == subject_.theory_head) return;
  subject_.theory_part = part;
  subject_.theory_head = head;
  invalidate(Analysis::theory);
}

void AnalysedRun::ask_for(AnalysisSet analyses) {
  for (const AnalysisInfo& row : analysis_table()) {
    if (row.settings.is_request && has(analyses, row.analysis) && !is_current(row.analysis) && !has_work(row.analysis))
      choose(row.settings.command, nlohmann::json::object());
  }
}

void AnalysedRun::choose_stop(const nlohmann::json& value) {
  const StopConfig config = read_fields(value, StopConfig());
  stop_ = StopCondition(config, [this](AnalysisSet analyses) { return analysed(analyses); });
  note({"stop_when", to_json(config)});
}

std::optional<std::string> AnalysedRun::stop_reason() {
  auto reason = stop_.reached(step(), [this](AnalysisSet analyses) { return analysed(analyses); });
  if (!reason) reason = conditioning_;
  if (reason) note_stop(*reason);
  return reason;
}

Observation AnalysedRun::analysed(AnalysisSet analyses, const std::function<void()>& after_piece) {
  bring_up_to_date(analyses, after_piece);
  return describe();
}

void AnalysedRun::take_over(const AnalysedRun& before) {
  for (const auto& analysis : analyses_) analysis->take_over(before.subject_);
}

void AnalysedRun::forget_results(std::int64_t after) {
  for (const auto& analysis : analyses_) analysis->forget(after);
}

AnalysisResults AnalysedRun::results() const {
  AnalysisResults results;
  for (const AnalysisInfo& row : analysis_table()) {
    find(row.analysis).publish(results);
    const AnalysisState now = state(row.analysis);
    results.made_at[place_of(row.analysis)] = now.made_at;
    if (now.is_current()) results.current = results.current | row.analysis;
    AnalysisWork& work = results.work[place_of(row.analysis)];
    work.name = row.name;
    work.part = subject_.part_of(row.analysis);
    work.phase = now.phase;
    work.share_done = now.share_done;
    if (pace_ && row.work) work.seconds = seconds_of(row.work(subject_), *pace_);
  }
  return results;
}

Observation AnalysedRun::describe() const {
  Observation now{status_of(*this), results(), summary_of(trainer())};
  now.model.name = now.preset;
  if (evaluation_copy_) now.device_bytes += static_cast<std::int64_t>(evaluation_copy_->backend().held_bytes());
  return now;
}

Observation AnalysedRun::observe(AnalysisSet analyses, const std::function<void()>& after_piece) {
  // Adds the analysis that shows the effect of interventions.
  Observation now = analysed(inspection_has_interventions() ? analyses | Analysis::inspected : analyses, after_piece);
  now.checksum = trainer().checksum();
  now.checksum_step = step();
  return now;
}

}  // namespace afterglow
