// Follows a recipe through time, in both directions.
#include "core/engine/training/training_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/figure/axis.h"
#include "core/io/error.h"

namespace afterglow {

namespace {

Command set_command(const std::string& key, double value, bool is_live = false) {
  nlohmann::json fields{{"key", key}, {"to", value}};
  if (is_live) fields["live"] = true;
  return {"set", fields.dump()};
}

}  // namespace

TrainingRun::TrainingRun(Recipe recipe, Backend& backend, std::size_t history_limit)
    : recipe_(std::move(recipe)),
      trainer_(std::make_unique<Trainer>(recipe_, backend)),
      history_(history_limit),
      layer_norms_(trainer_->parts().size()),
      trajectory_(recipe_.training.steps) {
  history_.keep(trainer_->save());
  apply_due_commands();  // they count for who only looks, too
}

TrainingRun::TrainingRun(const Snapshot& snapshot, Backend& backend, std::size_t history_limit)
    : recipe_(snapshot.recipe), history_(history_limit), trajectory_(recipe_.training.steps) {
  const auto check = [&](const ParameterStore& store) { check_weights(snapshot, store); };
  trainer_ = std::make_unique<Trainer>(recipe_, backend, DType::f32, check);
  layer_norms_.resize(trainer_->parts().size());
  try {
    trainer_->restore(trainer_state(snapshot, trainer_->parameters()));
  } catch (const Error& error) {
    throw Error(error.code(), snapshot.where + ": " + error.what());
  }
  rebuild_config();
  if (const auto record = held_out_record(snapshot, trainer_->parameters())) take_record(*record);
  history_.keep(trainer_->save());
  first_step_ = step() + 1;
}

void TrainingRun::apply(const Command& command) {
  if (command.name != "set") return;  // the other commands steer the run and leave no trace in its numbers
  const nlohmann::json value = nlohmann::json::parse(command.value);
  trainer_->set(value.at("key").get<std::string>(), value.at("to").get<double>());
}

void TrainingRun::apply_due_commands() {
  while (next_command_ < recipe_.commands.size() && recipe_.commands[next_command_].step <= step()) {
    apply(recipe_.commands[next_command_++].command);
  }
}

bool TrainingRun::train_step() {
  const StepResult result = trainer_->step();
  append(result);
  if (!result.finite) {
    failure_ = "step " + std::to_string(result.step) + ": a number became non-finite in " + trainer_->diagnose() +
               ". The weights are those of step " + std::to_string(step()) +
               "; lower the learning rate or raise the ridge and go on.";
    return false;
  }
  failure_.clear();
  trajectory_.record(step(), result.summary);
  const TrainingConfig& config = trainer_->config();
  if (config.evaluate_every > 0 && step() % config.evaluate_every == 0) evaluate();
  const std::size_t state_bytes = 3 * trainer_->parameters().values().bytes();
  if (history_.wants(step(), state_bytes)) history_.keep(trainer_->save(history_.take_spare()));
  apply_due_commands();
  return true;
}

void TrainingRun::evaluate() {
  const TrainingConfig& config = trainer_->config();
  held_out_step_.append(static_cast<double>(step()));
  held_out_accuracy_.append(trainer_->evaluate(config.evaluate_examples));
  if (!keeps_best() || best_step() != step()) return;
  history_.keep(trainer_->save(history_.take_spare()));
  history_.pin(step());
}

// Patience counts all evaluations, so a command to come that asks for it needs the best state of before.
bool TrainingRun::keeps_best() const {
  const auto asks = [](const TimedCommand& timed) {
    if (timed.command.name != "set") return false;
    const nlohmann::json value = nlohmann::json::parse(timed.command.value);
    return value.is_object() && value.value("key", nlohmann::json()) == "patience" &&
           value.value("to", nlohmann::json()) > 0;
  };
  return recipe_.training.patience > 0 || std::any_of(recipe_.commands.begin(), recipe_.commands.end(), asks);
}

std::int64_t TrainingRun::best_step() const {
  const Values steps = held_out_step_.view(), values = held_out_accuracy_.view();
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
  const Values steps = held_out_step_.view();
  const std::int64_t best = best_step();
  const auto worse = std::ranges::count_if(steps.span(), [&](double step) { return step > static_cast<double>(best); });
  return worse >= patience;
}

std::int64_t TrainingRun::chosen_step() const {
  const bool counts_by_best = trainer_->config().patience > 0 && finished() && best_step() >= 0;
  return counts_by_best ? best_step() : step();
}

Snapshot TrainingRun::snapshot_of(const TrainerState& state) const {
  return make_snapshot(recipe(), trainer_->parameters(), state, record_until(state.step));
}

/// Nothing where the best state is not at hand: patience was asked for only later.
std::optional<HeldOutRecord> TrainingRun::record_until(std::int64_t step) const {
  const Values steps = held_out_step_.view(), values = held_out_accuracy_.view();
  const std::int64_t best = best_step();
  if (!keeps_best() || best < 0 || best > step) return std::nullopt;
  HeldOutRecord record;
  record.best_step = best;
  for (std::size_t i = 0; i < steps.size() && steps[i] <= static_cast<double>(step); ++i) {
    record.steps.push_back(steps[i]);
    record.values.push_back(values[i]);
  }
  const TrainerState* kept = history_.before(best);
  if (best == step) return record;
  if (kept == nullptr || kept->step != best) return std::nullopt;
  record.best = *kept;
  return record;
}

void TrainingRun::take_record(const HeldOutRecord& record) {
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    held_out_step_.append(record.steps[i]);
    held_out_accuracy_.append(record.values[i]);
  }
  if (record.best) history_.keep(*record.best);
  history_.pin(record.best_step);
}

void TrainingRun::append(const StepResult& result) {
  // A step that failed shows its non-finite value on the curve, and goes when the step is tried again.
  truncate_curves(result.step - 1);
  loss_.append(result.loss);
  accuracy_.append(result.accuracy);
  learning_rate_.append(result.learning_rate);
  gradient_norm_.append(result.gradient_norm);
  for (std::size_t i = 0; i < layer_norms_.size(); ++i) {
    layer_norms_[i].append(i < result.layer_gradient_norms.size() ? result.layer_gradient_norms[i] : 0.0);
  }
}

void TrainingRun::truncate_curves(std::int64_t step) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(0, step - first_step_ + 1));
  for (GrowingCurve* curve : {&loss_, &accuracy_, &learning_rate_, &gradient_norm_}) curve->truncate(size);
  for (GrowingCurve& curve : layer_norms_) curve.truncate(size);
  const Values steps = held_out_step_.view();
  std::size_t kept = steps.size();
  while (kept > 0 && steps[kept - 1] > static_cast<double>(step)) --kept;
  held_out_step_.truncate(kept);
  held_out_accuracy_.truncate(kept);
  trajectory_.truncate(step);
}

void TrainingRun::set(const std::string& key, double value, bool is_live) {
  const bool goes_on = is_live_ && !done_.empty() && done_.back().key == key;
  const double from = goes_on ? done_.back().from : trainer_->get(key);
  trainer_->set(key, value);
  recipe_.commands.resize(next_command_);
  if (goes_on && done_.back().step == step()) recipe_.commands.pop_back();
  recipe_.commands.push_back({step(), set_command(key, value, is_live)});
  next_command_ = recipe_.commands.size();
  history_.forget_after(step());
  if (goes_on) {
    done_.back().step = step();
    done_.back().to = value;
  } else {
    done_.push_back({step(), step(), key, from, value});
  }
  undone_.clear();
  is_live_ = is_live;
}

// In front of all others, so that what undo takes back stays the last one.
void TrainingRun::note(const Command& command) {
  const auto same = std::find_if(recipe_.commands.begin(), recipe_.commands.end(),
                                 [&](const TimedCommand& timed) { return timed.command.name == command.name; });
  if (same != recipe_.commands.end()) {
    same->command = command;
  } else {
    recipe_.commands.insert(recipe_.commands.begin(), {0, command});
    ++next_command_;
  }
}

// A change of this very moment is taken out of the recipe; one that training has passed is answered by the opposite
// change.
bool TrainingRun::undo() {
  if (done_.empty()) return false;
  const Change last = done_.back();
  done_.pop_back();
  is_live_ = false;
  const bool passed = last.first_step != step();
  trainer_->set(last.key, last.from);
  if (passed) {
    recipe_.commands.resize(next_command_);
    recipe_.commands.push_back({step(), set_command(last.key, last.from)});
    history_.forget_after(step());
  } else {
    recipe_.commands.pop_back();
  }
  next_command_ = recipe_.commands.size();
  undone_.push_back(last);
  return true;
}

bool TrainingRun::redo() {
  if (undone_.empty()) return false;
  std::vector<Change> rest = undone_;
  rest.pop_back();
  set(undone_.back().key, undone_.back().to);
  undone_ = std::move(rest);
  return true;
}

void TrainingRun::rebuild_config() {
  trainer_->reset_settings();
  next_command_ = 0;
  apply_due_commands();
}

void TrainingRun::go_to(std::int64_t target) {
  if (target < 0) throw Error(ExitCode::bad_input, "step " + std::to_string(target) + ": steps count from 0");
  if (target < step()) {
    const TrainerState* frame = history_.before(target);
    if (!frame) {
      throw Error(ExitCode::bad_input,
                  "step " + std::to_string(target) + " lies before what this run remembers; start the recipe again");
    }
    failure_.clear();
    done_.clear();
    undone_.clear();
    is_live_ = false;
    trainer_->restore(*frame);
    rebuild_config();
    truncate_curves(step());
  }
  while (step() < target && train_step()) {
  }
}

Recipe TrainingRun::recipe() const {
  Recipe now = recipe_;
  now.shown_step = step();
  return now;
}

std::optional<Snapshot> TrainingRun::kept_snapshot() const {
  const TrainerState* kept = history_.before(step());
  if (kept == nullptr) return std::nullopt;
  return snapshot_of(*kept);
}

RunCurves TrainingRun::curves() const {
  RunCurves curves;
  curves.run = name;
  curves.first_step = first_step_;
  curves.loss = loss_.view();
  curves.accuracy = accuracy_.view();
  curves.learning_rate = learning_rate_.view();
  curves.gradient_norm = gradient_norm_.view();
  curves.held_out_step = held_out_step_.view();
  curves.held_out_accuracy = held_out_accuracy_.view();
  for (std::size_t i = 0; i < layer_norms_.size(); ++i)
    curves.layer_gradient_norms.push_back({trainer_->parts()[i].label, layer_norms_[i].view()});
  std::map<std::string, double> before;
  std::map<std::string, std::string> labels;
  for (const Setting& setting : trainer_->settings()) {
    before[setting.key] = setting.initial;
    labels[setting.key] = setting.label;
  }
  for (const TimedCommand& timed : recipe_.commands) {
    if (timed.command.name != "set" || timed.step > step()) continue;
    const nlohmann::json value = nlohmann::json::parse(timed.command.value);
    if (value.value("live", false)) continue;
    const auto key = value.at("key").get<std::string>();
    const auto to = value.at("to").get<double>();
    curves.marks.push_back({timed.step, labels[key] + " " + number_text(before[key], 3) + " → " + number_text(to, 3)});
    before[key] = to;
  }
  return curves;
}

}  // namespace afterglow
