// The numbers of a run under their names: what lessons expect, what `check --names` lists and what sweeps measure. A
// number that an instrument shows and that should have a name is one line in its family.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/recipe/lesson_condition.h"

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
/// The last family holds what is of every run; its names without a dot may begin with anything else.
std::span<const NumberFamily> number_families();

/// The one whose words the name begins with; null where there is none.
const NumberFamily* family_of(std::string_view name);

/// What the observation has now, family by family.
std::vector<NamedNumber> numbers_of(const Observation& observation);

/// The first word of a name.
std::string_view first_word(std::string_view name);
/// "1 ska" is "1_ska": small letters, and everything between them that is none as one "_".
std::string name_word(std::string_view text);

/// The head whose slowest mode lasts longest, and the eigenvalues of its operator as it acts on a token.
struct SlowestHead {
  int layer = -1, head = 0;  ///< index into ModelSummary::layers; -1: there is none
  double half_life;          ///< of its slowest mode; NaN without any
  std::vector<std::complex<double>> eigenvalues;
};
/// Among all Koopman heads in the probe sequence; of a model without any among what a token leaves of recurrent states.
SlowestHead slowest_head(const Spectra& spectra);
/// Half-life of the slowest mode of that head; NaN without any.
double longest_half_life(const Spectra& spectra);
/// The largest condition number of all heads; NaN without any.
double largest_kappa(const Spectra& spectra);
/// Beyond this condition number a system that is solved in a precision ("fp32", "tf32", "bf16") has no correct digit.
double kappa_limit(std::string_view precision);
/// Mean of the last numbers of a curve, at most so many; NaN of none.
double mean_of_last(const Values& curve, std::size_t most);
/// Steps over which the loss of a run is the mean.
constexpr std::size_t loss_steps = 20;
/// The step of the first held-out evaluation of at least 0.9; NaN without one.
double steps_to_ninety_percent(const RunCurves& curves);
/// Whether the loss is clearly larger than that of the first step.
bool has_diverged(const RunCurves& curves);

}  // namespace afterglow
