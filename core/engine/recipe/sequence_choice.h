// The second sequence to compare with the inspected one, the measure of their difference, and the state that is copied
// between them: plain values of a setup.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/recipe/command.h"

namespace afterglow {

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
  bool operator==(const PairChoice&) const = default;
};

/// The state that is copied from the clean to the corrupted sequence.
struct TransplantChoice {
  int layer = -1;            ///< index into ModelSummary::layers; -1: the last layer with a state
  std::string part = "all";  ///< a tensor of the layer's state, "C"; "all"; "none": nothing is copied
  int token = -1;            ///< after which it is copied; -1: the last one before the answer
  int head = -1;             ///< -1: every head
  bool operator==(const TransplantChoice&) const = default;
};

nlohmann::json to_json(const PairChoice& pair);
nlohmann::json to_json(const TransplantChoice& transplant);
/// Absent fields keep their value. Throws Error(bad_input) that names the field.
PairChoice parse_pair(const nlohmann::json& value, PairChoice pair, const std::string& where);
TransplantChoice parse_transplant(const nlohmann::json& value, TransplantChoice transplant, const std::string& where);

}  // namespace afterglow
