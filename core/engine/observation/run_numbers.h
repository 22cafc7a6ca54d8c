// Named numbers of a run, for lessons, `check --names` and sweeps. To add a number, add one line to its family.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/recipe/lesson_condition.h"

namespace afterglow {

struct NamedNumber {
  std::string name;
  Quantity value;
};

/// Numbers that come from the same analyses.
struct NumberFamily {
  std::vector<std::string_view> words;  ///< every name begins with one of them, up to its first dot
  std::string_view about;
  AnalysisSet analyses;
  void (*list)(const Observation& observation, std::vector<NamedNumber>& numbers);
};
/// The last family holds numbers of every run; its names without a dot may begin with any other word.
std::span<const NumberFamily> number_families();

/// The family with the name's first word; null without one.
const NumberFamily* family_of(std::string_view name);

/// All numbers of the observation, family by family.
std::vector<NamedNumber> numbers_of(const Observation& observation);

/// The one of this name; nothing without it.
std::optional<Quantity> number_in(const std::vector<NamedNumber>& numbers, std::string_view name);

/// The analyses that are being computed or wait for their share of the time, and when each will be complete.
struct PendingWork {
  std::string shown;  ///< "race 45 %, about 12 s · 2 more"; empty without any, or if each is due at once
  std::string all;    ///< of each: "race 45 %, about 12 s; influence waits, about 30 s"
};
PendingWork pending_work(const Observation& observation);

/// The first word of a name.
std::string_view first_word(std::string_view name);
/// "1 ska" -> "1_ska": lower case, every run of other characters as one "_".
std::string name_word(std::string_view text);

/// The head with the longest-lived slowest mode, and its operator's eigenvalues as they act on a token.
struct SlowestHead {
  int layer = -1, head = 0;  ///< index into ModelSummary::layers; -1: none
  double half_life;          ///< of its slowest mode; NaN without modes
  std::vector<std::complex<double>> eigenvalues;
};
/// Among all Koopman heads for the inspected sequence; for a model without any, among the decays of recurrent states.
SlowestHead slowest_head(const Spectra& spectra);
/// Half-life of the slowest mode of that head; NaN without one.
double longest_half_life(const Spectra& spectra);
/// The largest condition number of all heads; NaN without one.
double largest_kappa(const Spectra& spectra);
/// Above this condition number a solution in this precision ("fp32", "tf32", "bf16") has no correct digit.
double kappa_limit(std::string_view precision);
/// Mean of the last values of a curve, at most `most`; NaN of none.
double mean_of_last(const Values& curve, std::size_t most);
/// Number of steps over which the loss of a run is averaged.
constexpr std::size_t loss_steps = 20;
/// The step of the first held-out evaluation of at least 0.9; NaN without one.
double steps_to_ninety_percent(const RunCurves& curves);
/// Whether the loss is clearly larger than that of the first step.
bool has_diverged(const RunCurves& curves);

}  // namespace afterglow
