// The inspected sequence and its interventions as the user edits them.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "core/recipe/command.h"
#include "core/recipe/inspection_setup.h"
#include "core/tasks/task.h"

namespace afterglow {

class InterventionRunner;
struct Spectra;

class InspectionEditor {
 public:
  /// Begins with the recipe's `inspected` (recipe.h). `inspector` knows the layers that can be edited; null for a
  /// forecast, where only the window can be chosen. Both must outlive the editor. Throws Error(bad_input).
  InspectionEditor(const nlohmann::json& inspected, const Task& task, InterventionRunner* inspector);

  const InspectionSetup& now() const { return now_; }
  void take(InspectionSetup setup) { now_ = std::move(setup); }
  /// The setup with another held-out example, {"index": 3, "task": {..}}, also of another task (null: the run's own),
  /// without edited tokens. Throws Error(bad_input).
  InspectionSetup chosen(const nlohmann::json& value) const;
  /// The setup after `probe_sequence` (one token {"at": 3, "label": "v1"}, all {"tokens": [..]}, a prompt {"text":
  /// ".."} of any length, or what the model writes after the present ones {"write": 32}, with the interventions),
  /// `pair`, `transplant`, `freeze_scale` or a command of interventions.h. Modes have their numbers from `numbered`.
  /// Throws Error(bad_input).
  InspectionSetup changed(const Command& command, const Spectra* numbered = nullptr) const;

 private:
  InspectionSetup with_tokens(const nlohmann::json& value, const Spectra* numbered) const;
  InspectionSetup with_sequence(const std::vector<int>& tokens) const;
  InspectionSetup with_pair(nlohmann::json choices) const;
  InspectionSetup with_file(nlohmann::json choices) const;
  int token_of(const nlohmann::json& value) const;
  InspectionSetup checked(InspectionSetup setup) const;

  const Task* task_;
  InterventionRunner* inspector_;
  InspectionSetup now_;
};

}  // namespace afterglow
