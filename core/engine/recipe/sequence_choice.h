// Which second sequence the laboratory of causes lays beside the probe's, by what it measures the difference, and which
// memory it puts from one into the other: plain values of a probe's setup.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/recipe/command.h"

namespace afterglow {

/// What of an answer is compared.
enum class AnswerMeasure {
  logit_difference,  ///< logit of the clean answer minus that of the corrupted one
  probability,       ///< of the clean answer
  loss               ///< -log of that probability
};
std::string_view name_of(AnswerMeasure measure);
/// In the order in which they are offered.
inline constexpr AnswerMeasure all_measures[] = {AnswerMeasure::logit_difference, AnswerMeasure::probability,
                                                 AnswerMeasure::loss};

/// The corrupted sequence beside the clean one, which is the probe's own.
struct PairChoice {
  int choice = 0;             ///< counts through asked tokens and other values
  int asked = -1;             ///< the token whose answer counts; -1: as `choice` says
  std::vector<int> tokens{};  ///< the corrupted sequence where it was edited by hand; empty: as `choice` says
  AnswerMeasure measure = AnswerMeasure::logit_difference;
  bool heads = false;  ///< whether the patch grid has a row for each head
  bool operator==(const PairChoice&) const = default;
};

/// The memory that is taken from the clean sequence into the corrupted one.
struct TransplantChoice {
  int layer = -1;            ///< index into ModelSummary::layers; -1: the last layer that has a memory
  std::string part = "all";  ///< a tensor of the layer's state, "C"; "all" of them; "none": nothing is put in
  int token = -1;            ///< after which it is put in; -1: the last one before the answer
  int head = -1;             ///< -1: every head
  bool operator==(const TransplantChoice&) const = default;
};

nlohmann::json to_json(const PairChoice& pair);
nlohmann::json to_json(const TransplantChoice& transplant);
/// Absent fields stay as they are. Throws Error(bad_input) that names the field.
PairChoice parse_pair(const nlohmann::json& value, PairChoice pair, const std::string& where);
TransplantChoice parse_transplant(const nlohmann::json& value, TransplantChoice transplant, const std::string& where);

}  // namespace afterglow
