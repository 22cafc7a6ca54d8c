// The inspected sequence and its interventions: as a value and as JSON.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/engine/recipe/interventions.h"
#include "core/engine/recipe/sequence_choice.h"

namespace afterglow {

/// Everything that the user can choose about the inspected sequence.
struct InspectionSetup {
  std::uint64_t index = 0;    ///< held-out example of the task
  std::string task{};         ///< its configuration as JSON text; empty: the run's own
  std::vector<int> tokens{};  ///< the sequence if edited by hand; empty: the example's own
  Interventions interventions{};
  PairChoice pair{};              ///< the second sequence
  TransplantChoice transplant{};  ///< which state is copied from one to the other
  /// Token after which `ska`'s scale m stays fixed in the recurrent form (Echo 3.2.1); -1: never.
  int scale_kept_behind = -1;
  bool operator==(const InspectionSetup&) const = default;
};

/// {"index": 3, "task": {..}, "tokens": [..], "overrides": [{"name": "head_off", "value": {..}}, ..], "pair": {..},
/// "transplant": {..}, "freeze_scale": 9}; null for the default.
nlohmann::json to_json(const InspectionSetup& setup);
/// Throws Error(bad_input) that names the field.
InspectionSetup parse_inspection_setup(const nlohmann::json& json, const std::vector<InterventionTarget>& layers);

}  // namespace afterglow
