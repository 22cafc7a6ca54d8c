// The user's selection, the same in every panel: layer, head, mode, token, and a few choices that change a figure.
#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/engine/observation/observation.h"

namespace afterglow {

/// The style of earlier runs and branches in plots of the current one.
enum class EarlierRuns {
  grey,
  coloured,
  hidden,
  seeds  ///< mean and spread of the runs that differ from the present one only in their seed
};

/// As the command `select` names them, in the order of the enumeration.
inline constexpr std::array<std::string_view, 4> earlier_runs_names{"grey", "coloured", "hidden", "seeds"};
std::string_view name_of(EarlierRuns earlier);

struct Selection {
  int layer = -1;  ///< index into ModelSummary::layers; -1: the first layer that a panel can show
  int head = 0;    ///< of that layer
  int mode = -1;  ///< number of the mode (HeadSpectrum::identity), of a Koopman MLP the pair's number; -1: none chosen,
                  ///< readouts then take the strongest
  int token = -1;          ///< place in the traced sequence; -1: the last one
  int power = -1;          ///< K to show in the power filter; -1: the model's
  bool all_heads = false;  ///< spectrum: small plots of all heads
  bool scaled = false;     ///< spectrum: eigenvalues of A = scale A_w instead of A_w
  bool change = false;     ///< stepper: the change by the token instead of the state
  int arithmetic = -1;     ///< solvers: index into all_arithmetics; -1: that of the run
  bool band = true;        ///< solvers: every token and head of the layer instead of one system
  EarlierRuns earlier = EarlierRuns::grey;
  double smoothing = 0.9;        ///< weight of the past in smoothed curves, in [0, 1)
  int window = 0;                ///< steps of the plain mean used instead; 0: none
  bool only_difference = false;  ///< of two runs, where a difference is drawn
  bool operator==(const Selection&) const = default;
};

/// The differences from the default selection, as the value of the command `select`: {"head":2}.
std::string selection_value(const Selection& selection);
/// The selection after `select` with this value. Throws Error(bad_input).
Selection changed_selection(const Selection& selection, const nlohmann::json& value);

/// The spectrum to show: of the selected layer and head, or of the first layer that has one; nullptr without one.
const HeadSpectrum* selected_head(const Observation& observation, const Selection& selection);
/// The eigenvalues of the selected Koopman MLP, or of the first one if another layer is selected; nullptr without
/// one.
const MlpSpectrum* selected_mlp(const Observation& observation, const Selection& selection);
/// True if the selected layer is a Koopman MLP, whose eigenvalues the spectrum panel then shows.
bool mlp_is_selected(const Observation& observation, const Selection& selection);
/// The number of heads of a layer that have a spectrum.
int heads_of_layer(const Spectra& spectra, int layer);
/// The number of the eigenvalue at place i of a head.
int number_of_mode(const HeadSpectrum& head, std::size_t i);
/// Place of the mode in the readout: the selected one, else the one with most energy; -1 if the head has no finite
/// mode.
int selected_mode(const HeadSpectrum& head, const Selection& selection);
/// The selection for figures of heads: without the mode if that is a pair of a Koopman MLP.
Selection selection_of_heads(const Observation& observation, const Selection& selection);
/// The pair in the readout: the selected one, else that of the largest modulus; -1 if the MLP has no finite one.
int selected_pair(const MlpSpectrum& mlp, const Selection& selection);
/// Place of the selected token in the trace, -1 without a trace.
int selected_token(const Observation& observation, const Selection& selection);
/// The head of the traced layer to show, clamped to the trace; -1 without heads.
int selected_trace_head(const Trace& trace, const Selection& selection);

}  // namespace afterglow
