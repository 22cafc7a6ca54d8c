// Follows a recipe through time, in both directions.
#include "core/engine/training/training_run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "core/engine/training/saved/saved_run.h"
#include "core/engine/training/surgery.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/models/checkpoints/checkpoint.h"

namespace afterglow {
namespace {

/// "0.0007", "1000", "1e+07": short enough for a mark on a curve.
std::string short_number(double value) {
  constexpr double largest_whole = 1e7;
  const bool is_whole = value == std::floor(value) && std::abs(value) < largest_whole;
  char text[32];
  std::snprintf(text, sizeof text, is_whole ? "%.0f" : "%.3g", value);
  return text;
}

/// Whether the modes are read after this step: every 16 steps, and from step 1,024 on about 32 times per doubling of
/// the steps, often enough to match modes by nearest neighbour. Where decomposing takes as long as several training
/// steps, the run reads a quarter as often. The schedule depends only on the step and the sizes of the heads, so that a
/// prolonged run numbers its modes the same.
bool reads_modes_after(std::int64_t step, const Spectra& modes) {
  constexpr double large_work = 2e6;  // sum over heads of (number of modes)³
  double work = 0.0;
  for (const HeadSpectrum& head : modes.heads) work += std::pow(static_cast<double>(head.eigenvalues.size()), 3);
  const auto doubled = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(step)));
  return step % ((work > large_work ? 64 : 16) * std::max<std::int64_t>(1, doubled / 512)) == 0;
}

/// The part that a `freeze` names, as an index into the trainer's parts, and whether it is frozen.
std::pair<std::size_t, bool> frozen_part(const Command& command, const Trainer& trainer) {
  refuse_unknown_keys(command.value, {"part", "on"}, "freeze");
  const std::string label = get_string(command.value, "part", std::nullopt, "freeze");
  const bool on = get_bool(command.value, "on", true, "freeze");
  const std::vector<ModelPart>& parts = trainer.parts();
  return {&entry_named(parts, label, &ModelPart::label, ExitCode::bad_input, "freeze: this model has no part ") -
              parts.data(),
          on};
}

Command freeze_command(const std::string& part, bool on) {
  Command command{"freeze", {{"part", part}}};
  if (!on) command.value["on"] = false;
  return command;
}

/// Throws Error(bad_input) for a command that could not be carried out at its step.
void check_commands(const Recipe& recipe, const Trainer& trainer) {
  const std::vector<Setting> settings = trainer.settings();
  for (const TimedCommand& timed : recipe.commands) {
    if (timed.command.name == "freeze") frozen_part(timed.command, trainer);
    if (timed.command.name == "surgery") parse_surgery(timed.command.value, trainer);
    if (timed.command.name != "set") continue;
    const std::string where =
        "the command of step " + std::to_string(timed.step) + ", set " + timed.command.value.dump();
    const SetNumber set = SetNumber::of(timed.command, where);
    try {
      check_setting(settings, set.key, set.to);
    } catch (const Error& error) {
      throw Error(error.code(), where, ": ", error.what());
    }
  }
}

/// Saves the state that the run started from before anything changes it, unless that was done. Weights of a folder are
/// saved no earlier, because a model that is only read needs no copy.
void keep_start(History& history, const Trainer& trainer) {
  if (history.frames() == 0) history.keep(trainer.save());
}

}  // namespace

TrainingRun::TrainingRun(Recipe recipe, Backend& backend, std::size_t history_limit, const Checkpoint* origin)
    : TrainingRun(std::move(recipe), nullptr, backend, history_limit, origin) {}

TrainingRun::TrainingRun(const Snapshot& snapshot, Backend& backend, std::size_t history_limit)
    : TrainingRun(snapshot.recipe, &snapshot, backend, history_limit, nullptr) {}

TrainingRun::TrainingRun(const SavedRun& saved, Backend& backend, std::size_t history_limit)
    : TrainingRun(saved.own_recipe(), saved.snapshot ? &*saved.snapshot : nullptr, backend, history_limit,
                  saved.origin.get()) {
  folder_ = saved.folder;
  if (!folder_) return;
  history_.forget_after(-1);  // the folder has the states
  trainer_->only_read();
}

TrainingRun::TrainingRun(Recipe recipe, const Snapshot* snapshot, Backend& backend, std::size_t history_limit,
                         const Checkpoint* origin)
    : recipe_(std::move(recipe)),
      trainer_(std::make_unique<Trainer>(
          recipe_, backend, DType::f32,
          snapshot ? [&](const ParameterStore& store) { check_weights(*snapshot, store); } : Trainer::CheckWeights(),
          origin)),
      history_(history_limit),
      record_(names_of(trainer_->parts(), &ModelPart::label), recipe_.training.steps) {
  if (snapshot) {
    begin_at(*snapshot);
    return;
  }
  check_commands(recipe_, *trainer_);
  if (recipe_.checkpoint.contains("step")) {  // of another program's training, which is not repeated here
    TrainerState state = trainer_->save();
    state.step = latest_step_ = recipe_.checkpoint["step"];
    trainer_->restore(state);
    record_.begin_after(state.step);
  } else if (recipe_.checkpoint.is_null()) {
    keep_start(history_, *trainer_);
  }
  apply_due_commands();  // they also apply to read-only runs
}

void TrainingRun::begin_at(const Snapshot& snapshot) {
  latest_step_ = snapshot.step;
  const TrainerState state = take_state(snapshot);
  check_commands(recipe_, *trainer_);
  rebuild_config();
  record_.begin_after(step());
  if (const auto past = recorded_past(snapshot, trainer_->parts().size())) record_.take(*past);
  if (auto numbered = numbered_spectra(snapshot)) numbered_.push_back(std::move(numbered));
  if (const auto record = held_out_record(snapshot, trainer_->parameters())) take_record(*record);
  check_checksums(snapshot, state);
  history_.keep(trainer_->save());
}

TrainerState TrainingRun::take_state(const Snapshot& snapshot) {
  TrainerState state = trainer_state(snapshot, trainer_->parameters());
  try {
    trainer_->restore(state);
  } catch (const Error& error) {
    throw Error(error.code(), snapshot.where, ": ", error.what());
  }
  return state;
}

void TrainingRun::apply(const Command& command) {
  if (command.name == "freeze") {
    const auto [part, on] = frozen_part(command, *trainer_);
    if (on)
      frozen_.insert(part);
    else
      frozen_.erase(part);
  }
  if (command.name != "set") return;  // the other commands steer the run and change no number
  const SetNumber set = SetNumber::of(command);
  trainer_->set(set.key, set.to);
}

void TrainingRun::apply_due_commands() {
  while (next_command_ < recipe_.commands.size() && recipe_.commands[next_command_].step <= step())
    apply(recipe_.commands[next_command_++].command);
}

/// A command of this name that acts on the next step.
const Command* TrainingRun::next_of(std::string_view name) const {
  // The commands of this step are the last ones that were applied.
  for (std::size_t i = next_command_; i-- > 0 && recipe_.commands[i].step == step();) {
    if (recipe_.commands[i].command.name == name) return &recipe_.commands[i].command;
  }
  return nullptr;
}

/// The memory of training, which counts steps, still takes the batch.
StepResult TrainingRun::step_without_learning() {
  TrainerState state = trainer_->save();
  const StepResult result = trainer_->step();
  if (!result.finite) return result;
  state.step = result.step;
  state.memory = trainer_->memory();
  trainer_->restore(state);
  return result;
}

/// The whole model makes the step; then the frozen parts get their weights and moments restored.
StepResult TrainingRun::step_with_frozen_parts() {
  const TrainerState before = trainer_->save();
  const StepResult result = trainer_->step();
  if (!result.finite) return result;
  TrainerState after = trainer_->save();
  const auto& parts = trainer_->parts();
  const std::size_t width = size_of(trainer_->dtype());
  const auto put_back = [&](std::vector<std::byte>& now, const std::vector<std::byte>& then, std::size_t part) {
    const std::size_t begin = static_cast<std::size_t>(parts[part].offset) * width;
    const std::size_t end =
        part + 1 < parts.size() ? static_cast<std::size_t>(parts[part + 1].offset) * width : now.size();
    for (std::size_t i = begin; i < end; ++i) now[i] = then.empty() ? std::byte{0} : then[i];
  };
  for (const std::size_t part : frozen_) {
    put_back(after.weights, before.weights, part);
    put_back(after.first_moments, before.first_moments, part);
    put_back(after.second_moments, before.second_moments, part);
  }
  trainer_->restore(after);
  return result;
}

/// Modes get their first numbers from the weights before all commands, also where a command at step 0 came first.
void TrainingRun::read_modes() {
  if (!read_modes_) return;
  if (step() == 0) trainer_->reset_settings();
  numbered_.push_back(read_modes_(numbered_.empty() ? nullptr : numbered_.back().get()));
  if (step() == 0) rebuild_config();
}

std::shared_ptr<const Spectra> TrainingRun::numbered_modes(std::int64_t step) {
  if (numbered_.empty()) read_modes();
  return last_numbered(step);
}

/// The best state in a snapshot may be older than the first saved state.
std::shared_ptr<const Spectra> TrainingRun::last_numbered(std::int64_t step) const {
  const auto later = std::ranges::upper_bound(numbered_, step, {}, [](const auto& spectra) { return spectra->step; });
  if (later != numbered_.begin()) return *std::prev(later);
  return numbered_.empty() ? nullptr : numbered_.front();
}

bool TrainingRun::begin_step() {
  if (numbered_.empty()) read_modes();
  if (!frozen_.empty() || next_of("surgery") != nullptr || next_of("skip") != nullptr) return false;
  keep_start(history_, *trainer_);
  trainer_->begin_step();
  trainer_->prepare_batch();  // while the device computes
  is_under_way_ = true;
  return true;
}

StepResult TrainingRun::make_step() {
  if (std::exchange(is_under_way_, false)) return trainer_->end_step();
  const Command* surgery = next_of("surgery");
  if (surgery == nullptr && next_of("skip") == nullptr)
    return frozen_.empty() ? trainer_->step() : step_with_frozen_parts();
  const StepResult result = step_without_learning();
  if (surgery != nullptr && result.finite)
    carry_out(*trainer_, recipe_.model, parse_surgery(surgery->value, *trainer_), last_numbered(step()).get());
  return result;
}

RehearsedStep TrainingRun::rehearse() {
  TrainerState state = trainer_->save();
  const ParameterStore& store = trainer_->parameters();
  RehearsedStep rehearsed;
  rehearsed.is_left_out = next_of("skip") != nullptr;
  const StepResult result = make_step();
  rehearsed.loss = result.loss;
  rehearsed.is_finite = result.finite;
  rehearsed.gradient = stored_numbers(trainer_->backend(), store.gradients());
  rehearsed.after = stored_numbers(trainer_->backend(), store.values());
  trainer_->restore(state);
  rehearsed.weights = {store.dtype(), std::move(state.weights)};
  return rehearsed;
}

bool TrainingRun::train_step() {
  if (!is_under_way_) {
    if (numbered_.empty()) read_modes();
    keep_start(history_, *trainer_);
  }
  const StepResult result = make_step();
  const bool is_known = result.finite && result.step <= latest_step_;
  if (!is_known) record_.append(result);
  if (!result.finite) {
    failure_ = "step " + std::to_string(result.step) + ": a number became non-finite in " + trainer_->diagnose() +
               ". The weights are those of step " + std::to_string(step()) +
               "; lower the learning rate or raise the ridge, then continue.";
    record_.add_stop({step(), "step " + std::to_string(result.step) + " was not finite", true});
    return false;
  }
  failure_.clear();
  if (!is_known) record_.follow(result);
  latest_step_ = std::max(latest_step_, step());
  if (!numbered_.empty() && numbered_.back()->step < step() && reads_modes_after(step(), *numbered_.back()))
    read_modes();
  const TrainingConfig& config = trainer_->config();
  if (config.evaluate_every > 0 && step() % config.evaluate_every == 0) evaluate();
  const std::size_t state_bytes = 3 * trainer_->parameters().values().bytes();
  if (history_.wants(step(), state_bytes)) history_.keep(trainer_->save(history_.take_spare()));
  apply_due_commands();
  after_step();
  return true;
}

void TrainingRun::evaluate() {
  const TrainingConfig& config = trainer_->config();
  if (!record_.has_held_out(step())) record_.add_held_out(step(), trainer_->evaluate(config.evaluate_examples));
  if (!keeps_best() || best_step() != step()) return;
  history_.keep(trainer_->save(history_.take_spare()));
  history_.pin(step());
}

// Patience counts all evaluations, so a pending command that enables it needs the best state from before.
bool TrainingRun::keeps_best() const {
  const auto asks = [](const TimedCommand& timed) {
    if (timed.command.name != "set") return false;
    const SetNumber set = SetNumber::of(timed.command);
    return set.key == "patience" && set.to > 0;
  };
  return recipe_.training.patience > 0 || std::ranges::any_of(recipe_.commands, asks);
}

std::int64_t TrainingRun::best_step() const {
  const Values steps = record_.held_out_steps(step()), values = record_.held_out_values(step());
  std::int64_t best = -1;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > most)) continue;
    most = values[i];
    best = static_cast<std::int64_t>(steps[i]);
  }
  return best;
}

bool TrainingRun::is_out_of_patience() const {
  const std::int64_t patience = trainer_->config().patience;
  if (patience == 0) return false;
  const Values steps = record_.held_out_steps(step());
  const std::int64_t best = best_step();
  const auto worse = std::ranges::count_if(steps.span(), [&](double step) { return step > static_cast<double>(best); });
  return worse >= patience;
}

std::int64_t TrainingRun::chosen_step() const {
  const bool counts_by_best = trainer_->config().patience > 0 && finished() && best_step() >= 0;
  return counts_by_best ? best_step() : step();
}

Snapshot TrainingRun::snapshot_of(const TrainerState& state) const {
  return make_snapshot(recipe(), trainer_->parameters(), state, record_.past(state.step), record_until(state.step),
                       last_numbered(state.step).get());
}

/// Nothing if the best state was not saved because patience was enabled only later.
std::optional<HeldOutRecord> TrainingRun::record_until(std::int64_t step) const {
  const Values steps = record_.held_out_steps(step), values = record_.held_out_values(step);
  const std::int64_t best = best_step();
  if (!keeps_best() || best < 0 || best > step) return std::nullopt;
  HeldOutRecord record;
  record.best_step = best;
  record.steps.assign(steps.span().begin(), steps.span().end());
  record.values.assign(values.span().begin(), values.span().end());
  const TrainerState* kept = history_.before(best);
  if (best == step) return record;
  if (kept == nullptr || kept->step != best) return std::nullopt;
  record.best = *kept;
  return record;
}

void TrainingRun::take_record(const HeldOutRecord& record) {
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    const auto step = static_cast<std::int64_t>(record.steps[i]);
    if (!record_.has_held_out(step)) record_.add_held_out(step, record.values[i]);
  }
  if (record.best) history_.keep(*record.best);
  history_.pin(record.best_step);
}

void TrainingRun::set(const std::string& key, double value, bool is_live) {
  const std::string gesture = "set " + key;
  const bool replaces_last = journal_.continues(gesture) && recipe_.commands[next_command_ - 1].step == step();
  journal_.perform(Journal::Scope::run, change_of(SetNumber{key, value, is_live}), gesture, is_live);
  if (replaces_last) recipe_.commands.erase(recipe_.commands.end() - 2);
  next_command_ = recipe_.commands.size();
}

/// The command acts from here on; later steps and commands are dropped. Returns these commands.
std::vector<TimedCommand> TrainingRun::begin_future(const Command& command) {
  const auto ahead = recipe_.commands.begin() + static_cast<std::ptrdiff_t>(next_command_);
  std::vector<TimedCommand> pending(ahead, recipe_.commands.end());
  recipe_.commands.erase(ahead, recipe_.commands.end());
  recipe_.commands.push_back({step(), command});
  next_command_ = recipe_.commands.size();
  forget_ahead();
  return pending;
}

/// Removes the last command that acts; `pending` ones follow it again.
void TrainingRun::remove_last_command(const std::vector<TimedCommand>& pending) {
  recipe_.commands.resize(--next_command_);
  recipe_.commands.insert(recipe_.commands.end(), pending.begin(), pending.end());
  forget_ahead();
}

Command TrainingRun::opposite_of(const Command& command) const {
  if (command.name == "set") {
    const std::string key = SetNumber::of(command).key;
    return SetNumber{key, trainer_->get(key)};
  }
  const std::size_t part = frozen_part(command, *trainer_).first;
  return freeze_command(trainer_->parts()[part].label, frozen_.contains(part));
}

/// The opposite is found anew each time: a drag that is repeated begins elsewhere than its last piece did.
Journal::Change TrainingRun::change_of(const Command& command) {
  return [this, command]() -> Journal::Undo {
    const Command opposite = opposite_of(command);
    apply(command);
    return [this, opposite, pending = begin_future(command), first = step()] {
      apply(opposite);
      step() == first ? remove_last_command(pending) : void(begin_future(opposite));
    };
  };
}

void TrainingRun::leave_out_batch() {
  if (next_of("skip") != nullptr) return;
  begin_future({"skip"});
  journal_.forget(Journal::Scope::run);
}

void TrainingRun::freeze(const std::string& part, bool on) {
  journal_.perform(Journal::Scope::run, change_of(freeze_command(part, on)));
}

Journal::Undo TrainingRun::operate(const nlohmann::json& surgery) {
  const InspectionSetup wanted = parse_surgery(surgery, *trainer_);
  const TrainerState before = trainer_->save();
  // Throws if it cannot be done, with unchanged weights.
  const nlohmann::json exact = to_json(carry_out(*trainer_, recipe_.model, wanted, last_numbered(step()).get()).exact);
  trainer_->restore(before);
  history_.keep(before);
  const std::vector<TimedCommand> pending = begin_future({"surgery", exact});
  const std::int64_t at = step();
  train_step();
  return [this, pending, at] {
    restore_before(at);
    while (step() < at && train_step()) {
    }
    remove_last_command(pending);
  };
}

// Inserted before all others, so that the last entry stays the one that undo reverts.
void TrainingRun::note(const Command& command) {
  const auto same = std::ranges::find_if(recipe_.commands,
                                         [&](const TimedCommand& timed) { return timed.command.name == command.name; });
  if (same != recipe_.commands.end()) {
    same->command = command;
  } else {
    recipe_.commands.insert(recipe_.commands.begin(), {0, command});
    ++next_command_;
  }
}

void TrainingRun::rebuild_config() {
  trainer_->reset_settings();
  frozen_.clear();
  next_command_ = 0;
  apply_due_commands();
}

std::int64_t TrainingRun::oldest_step() const {
  return folder_ && !folder_->states().empty() ? folder_->near(0).step
         : history_.frames() > 0               ? history_.oldest()
                                               : step();
}

std::int64_t TrainingRun::latest_step() const {
  return folder_ && !folder_->states().empty() ? folder_->near(newest_state).step : latest_step_;
}

std::shared_ptr<const std::vector<KeptState>> TrainingRun::kept() const {
  if (!folder_ && history_.frames() > 0) return history_.kept();
  if (!folder_) return std::make_shared<const std::vector<KeptState>>(1, KeptState{step(), ""});
  return std::make_shared<const std::vector<KeptState>>(mapped(folder_->states(), [](const auto& state) {
    return KeptState{state.first, ""};
  }));
}

/// If the state cannot be opened, the present one stays.
bool TrainingRun::open_stored(const StoredState& stored) {
  if (stored.step == step()) return false;
  const SavedRun saved = open_state(stored);
  if (saved.recipe.model != recipe_.model)
    throw BadInput(stored.path.string(), ": it holds another model than the one that is open");
  TrainerState present = trainer_->save();
  std::shared_ptr<const Spectra> numbered;
  try {
    if (saved.snapshot) {
      check_weights(*saved.snapshot, trainer_->parameters());
      check_checksums(*saved.snapshot, take_state(*saved.snapshot));
      numbered = numbered_spectra(*saved.snapshot);
    } else {
      saved.origin->check(trainer_->parameters());
      saved.origin->load(trainer_->parameters());
      present = trainer_->save(std::move(present));  // in its memory, because a large model is there twice already
      present.step = stored.step;
      trainer_->restore(present);
    }
  } catch (...) {
    trainer_->restore(present);
    throw;
  }
  numbered_.clear();
  if (read_modes_ && numbered) numbered_.push_back(read_modes_(numbered.get()));
  recipe_.checkpoint = saved.recipe.checkpoint;
  forget_changes();
  return true;
}

/// Another state has been restored.
void TrainingRun::forget_changes() {
  failure_.clear();
  journal_.forget(Journal::Scope::run);
  rebuild_config();
}

void TrainingRun::go_to(std::int64_t target) {
  jump_towards(target);
  while (!folder_ && step() < target && train_step()) {
  }
}

void TrainingRun::jump_towards(std::int64_t target) {
  if (!restore_before(target)) return;
  journal_.forget(Journal::Scope::run);
  forget_results(latest_step());
  if (folder_) after_step();
}

bool TrainingRun::restore_before(std::int64_t target) {
  if (target < 0) throw BadInput("step ", target, ": steps count from 0");
  if (folder_) return open_stored(folder_->near(target));
  if (history_.frames() == 0) return false;  // nothing has changed since the start
  const TrainerState* kept = history_.before(target);
  if (kept == nullptr)
    throw BadInput("This snapshot starts at step ", oldest_step(), "; rerun the recipe to go further back.");
  const bool is_nearest = target >= step() && kept->step <= step();
  if (is_nearest) return false;
  record_.truncate(latest_step_);  // of a failed step
  failure_.clear();
  trainer_->restore(*kept);
  rebuild_config();
  return true;
}

void TrainingRun::forget_ahead() {
  while (!numbered_.empty() && numbered_.back()->step > step()) numbered_.pop_back();
  record_.forget_failure(step());
  if (latest_step_ == step()) return;
  history_.forget_after(step());
  record_.truncate(step());
  latest_step_ = step();
  forget_results(step());
}

void TrainingRun::go_over_to(const Recipe& other, std::int64_t common) {
  record_.truncate(latest_step_);  // of a failed step
  failure_.clear();
  jump_towards(std::min(common, other.shown_step));
  forget_ahead();
  const auto is_change = [](const TimedCommand& timed) { return changes_training(timed.command); };
  std::erase_if(recipe_.commands, is_change);
  std::ranges::copy_if(other.commands, std::back_inserter(recipe_.commands), is_change);
  forget_changes();
  forget_results(step());
}

Recipe TrainingRun::recipe() const {
  Recipe now = recipe_;
  now.shown_step = step();
  return now;
}

std::optional<Snapshot> TrainingRun::kept_snapshot(std::int64_t at) const {
  if (history_.frames() == 0) return snapshot();
  const TrainerState* kept = history_.before(at);
  if (kept == nullptr) return std::nullopt;
  return snapshot_of(*kept);
}

RunCurves TrainingRun::curves_until(std::int64_t until) const {
  RunCurves curves = record_.curves(until);
  curves.run = name;
  std::map<std::string, double> before;
  std::map<std::string, std::string> labels;
  for (const Setting& setting : trainer_->settings()) {
    before[setting.key] = setting.initial;
    labels[setting.key] = setting.label;
  }
  for (const TimedCommand& timed : recipe_.commands) {
    if (timed.step > std::min(until, latest_step_)) continue;
    if (timed.command.name == "freeze") {
      const auto [part, on] = frozen_part(timed.command, *trainer_);
      curves.marks.push_back({timed.step, trainer_->parts()[part].label + (on ? " frozen" : " learns again")});
    }
    if (timed.command.name == "surgery") curves.marks.push_back({timed.step + 1, "surgery"});
    if (timed.command.name == "skip") curves.marks.push_back({timed.step + 1, "batch left out"});
    if (timed.command.name != "set") continue;
    const auto [key, to, is_live] = SetNumber::of(timed.command);
    if (is_live) continue;
    const std::string from = short_number(before[key]), reached = short_number(to);
    if (from != reached) curves.marks.push_back({timed.step, labels[key] + " " + from + " → " + reached});
    before[key] = to;
  }
  std::ranges::stable_sort(curves.marks, {}, &Mark::step);
  return curves;
}

}  // namespace afterglow
