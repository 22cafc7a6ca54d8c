// The inspected sequence, the second one to compare it with, and the interventions: as values and as JSON.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/field_table.h"
#include "core/recipe/interventions.h"

namespace afterglow {

constexpr int max_sequence_length = 1 << 20;

/// What is compared of an answer.
enum class AnswerMeasure {
  logit_difference,  ///< logit of the clean answer minus that of the corrupted one
  probability,       ///< of the clean answer
  loss               ///< -log of that probability
};
std::string_view name_of(AnswerMeasure measure);
/// In display order.
inline constexpr AnswerMeasure all_measures[] = {AnswerMeasure::logit_difference, AnswerMeasure::probability,
                                                 AnswerMeasure::loss};

/// The corrupted sequence; the clean one is the inspected sequence.
struct PairChoice {
  int choice = 0;             ///< counts through queried tokens and other values
  int asked = -1;             ///< the token whose answer is measured; -1: given by `choice`
  std::vector<int> tokens{};  ///< the corrupted sequence if edited by hand; empty: given by `choice`
  AnswerMeasure measure = AnswerMeasure::logit_difference;
  bool heads = false;  ///< whether the patch grid has a row for each head
  static constexpr const char* command = "pair";
  static constexpr ConfigField<PairChoice> fields[] = {{"choice", &PairChoice::choice, 0, max_sequence_length},
                                                       {"asked", &PairChoice::asked, -1, max_sequence_length},
                                                       {"heads", &PairChoice::heads}};
  bool operator==(const PairChoice&) const = default;
};

/// The state that is copied from the clean to the corrupted sequence.
struct TransplantChoice {
  int layer = -1;            ///< index into ModelSummary::layers; -1: the last layer with a state
  std::string part = "all";  ///< a tensor of the layer's state, "C"; "all"; "none": nothing is copied
  int token = -1;            ///< after which it is copied; -1: the last one before the answer
  int head = -1;             ///< -1: every head
  static constexpr const char* command = "transplant";
  static constexpr ConfigField<TransplantChoice> fields[] = {
      {"layer", &TransplantChoice::layer, -1, max_sequence_length},
      {"part", &TransplantChoice::part},
      {"token", &TransplantChoice::token, -1, max_sequence_length},
      {"head", &TransplantChoice::head, -1, max_sequence_length}};
  bool operator==(const TransplantChoice&) const = default;
};

nlohmann::json to_json(const PairChoice& pair);
/// Absent fields keep their value. Throws Error(bad_input) that names the field.
PairChoice parse_pair(const nlohmann::json& value, const PairChoice& before);

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
