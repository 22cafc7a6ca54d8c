// One colour, one meaning: the colours of layers, heads, modes, runs and tokens, the same in every panel.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/figure/figure.h"

namespace afterglow {

/// By what the layer is, as its descriptor says; what is no layer is quiet.
Ink layer_ink(std::string_view kind);
/// That of the first kind which shows this, for what stands for all such layers.
Ink layer_ink(LayerTrait trait);
inline Ink head_ink(int head) { return Ink(head); }
inline Ink mode_ink(int identity) { return Ink(identity); }
inline Ink run_ink(std::size_t run) { return Ink(static_cast<int>(run)); }
/// By the token's role; fillers are quiet.
Ink token_ink(TokenRole role);

/// Lines of one colour are told apart by their dashes or markers: counts those of each.
class LinesOfColour {
 public:
  /// Adds a line; how many had its colour before.
  std::size_t add(Ink ink) {
    const auto before = static_cast<std::size_t>(std::ranges::count(inks_, ink));
    inks_.push_back(ink);
    return before;
  }

 private:
  std::vector<Ink> inks_;
};

/// "needs an SKA layer; the preset few-modes has one".
std::string what_it_needs(LayerTraits any);
/// Why there is nothing to see of layers with a trait: the model has none, or they have not been looked at.
std::string why_no_layer(const Observation& observation, LayerTrait trait);
/// What a panel says before its first analysis: `soon`, or of a forecaster, which has no tokens to analyse, that.
std::string why_not_yet(const Observation& observation, std::string_view soon);
/// Instead of anything else while nothing can be there: the model is being opened, could not be, or makes its first
/// step; empty otherwise.
std::string why_no_model(const Observation& observation);

/// The label of a layer, or "layer 7" for an index that the model does not have.
std::string layer_name(const Observation& observation, int layer);
/// "1 head", "4 heads".
std::string heads_text(std::size_t heads);

/// What a figure is about: "layer 1 ska, head 0".
std::string place_name(const Observation& observation, int layer, int head = -1);

/// The end of a colour bar: the next of 1, 2, 5 times a power of ten, so that it rarely moves; 1 when `largest` is not
/// positive and finite.
double colour_reach(double largest);

/// Behind a subtitle: " · as of step 1,200" where what is shown is older than the observation.
std::string age_text(const Observation& observation, std::int64_t step);
/// More names than colours are too long a list: then only the selected head stands out, and the pointer names the
/// others.
constexpr std::size_t max_named_heads = 8;

/// "1,234,567" with thin groups, for counts.
std::string grouped_number(std::int64_t number);

}  // namespace afterglow
