// The inspected sequence and its interventions as the user edits them, with undo.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "core/engine/recipe/command.h"
#include "core/engine/recipe/inspection_setup.h"
#include "core/tasks/task.h"

namespace afterglow {

class InterventionRunner;

class InspectionEditor {
 public:
  /// Begins with the recipe's `inspected` (recipe.h). `inspector` knows the layers that can be edited; null for a
  /// forecast, where only the window can be chosen. Both must outlive the editor. Throws Error(bad_input).
  InspectionEditor(const nlohmann::json& inspected, const Task& task, const InterventionRunner* inspector);

  const InspectionSetup& now() const { return history_.now(); }
  /// Chooses another held-out example, {"index": 3, "task": {..}}, also of another task (null: the run's own), and
  /// discards edited tokens. `mark` as in InspectionHistory::change. Throws Error(bad_input).
  void choose(const nlohmann::json& value, std::size_t mark);
  /// Carries out `probe_sequence` (one token {"at": 3, "label": "v1"}, all {"tokens": [..]}, a prompt {"text": ".."}
  /// of any length, or what the model writes after the present ones {"write": 32}), `pair`, `transplant`,
  /// `freeze_scale` and the commands of interventions.h. Throws Error(bad_input) and then changes nothing.
  void change(const Command& command, std::size_t mark);

  /// Whether the last change here is younger than change number `mark` of the run.
  bool can_undo(std::size_t mark) const { return history_.can_undo(mark); }
  bool can_redo(std::size_t mark) const { return history_.can_redo(mark); }
  void undo() { history_.undo(); }
  void redo() { history_.redo(); }

 private:
  InspectionSetup with_tokens(const Command& command, const nlohmann::json& value) const;
  InspectionSetup with_sequence(const std::vector<int>& tokens) const;
  InspectionSetup with_pair(const nlohmann::json& value) const;
  InspectionSetup with_file(nlohmann::json choices) const;
  int token_of(const nlohmann::json& value) const;
  void take(InspectionSetup setup, bool is_live, std::size_t mark);

  const Task* task_;
  const InterventionRunner* inspector_;
  InspectionHistory history_;
};

}  // namespace afterglow
