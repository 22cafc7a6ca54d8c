// One meaning for each colour: layers, heads, modes, runs and tokens, the same in every panel.
#pragma once
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/figure/figure.h"

namespace afterglow {

/// By the kind of the layer, as its descriptor says; quiet for anything that is not a layer.
Ink layer_ink(std::string_view kind);
/// The ink of the first kind with this trait, for things that represent all such layers.
Ink layer_ink(LayerTrait trait);
inline Ink head_ink(int head) { return Ink(head); }
inline Ink mode_ink(int identity) { return Ink(identity); }
inline Ink run_ink(std::size_t run) { return Ink(static_cast<int>(run)); }
/// By the token's role; fillers are quiet.
Ink token_ink(TokenRole role);

/// Lines of one colour have different dashes or markers: counts the lines of each colour.
class LinesOfColour {
 public:
  /// Adds a line; returns how many had its colour before.
  std::size_t add(Ink ink) {
    const auto before = static_cast<std::size_t>(std::ranges::count(inks_, ink));
    inks_.push_back(ink);
    return before;
  }

 private:
  std::vector<Ink> inks_;
};

inline constexpr std::array plain_dashes{Dash::solid, Dash::dashed, Dash::dotted, Dash::dash_dot};

/// "needs an SKA layer; the preset few-modes has one".
std::string what_it_needs(LayerTraits any);
/// Why a panel about layers with a trait is empty: the model has no such layer, or the analysis has not run yet.
std::string why_no_layer(const Observation& observation, LayerTrait trait);
/// The message before the first analysis: `soon`, or for a forecaster, which has no tokens, that it needs them.
std::string why_not_yet(const Observation& observation, std::string_view soon);
/// Why figures of the training itself stay empty for a folder of states.
constexpr const char* trained_elsewhere =
    "Another program trains this run. A checkpoint that is opened by itself can be trained on here.";
/// The message while nothing can be shown: the model is being opened, could not be opened, or makes its first step;
/// else empty.
std::string why_no_model(const Observation& observation);

/// The label of a layer, or "layer 7" for an unknown index.
std::string layer_name(const Observation& observation, int layer);
/// "1 head", "4 heads".
std::string heads_text(std::size_t heads);

/// The subject of a figure: "layer 1 ska, head 0".
std::string place_name(const Observation& observation, int layer, int head = -1);

/// The end of a colour bar: the next of 1, 2, 5 times a power of ten, so that it seldom changes; 1 if `largest` is not
/// positive and finite.
double colour_reach(double largest);

/// The end of a subtitle: " · as of step 1,200" if the result is older than the observation.
std::string age_text(const Observation& observation, std::int64_t step);
/// The line of one of `heads` heads. If there are more names than colours, only the chosen head is highlighted, and the
/// pointer shows the names of the others.
void add_head_line(Figure& figure, int head, std::size_t heads, int chosen, Curve curve);

/// The largest finite magnitude; 0 without one.
double max_magnitude(std::span<const float> numbers);
/// A matrix in colours that are symmetric around 0, up to `colour_reach(largest)`.
HeatMap signed_map(std::string name, int rows, int columns, std::span<const float> numbers, double largest);

}  // namespace afterglow
