// What there is to see of a kind of layer. Panels, workspaces and analyses ask for this, never for the kind's name.
#pragma once
#include <string>
#include <string_view>

namespace afterglow {

enum class LayerTrait : unsigned {
  koopman_heads = 1,     ///< an `Ska`: each head fits an operator to its keys, which has eigenvalues and can be edited
  koopman_modes = 2,     ///< a `KoopmanMlp`: learned eigenvalues
  ridge_systems = 4,     ///< solves (H + λI) x = q for its tokens; its readers say which
  gate = 8,              ///< its memory fades by decays that are known; its readers say which
  feedback = 16,         ///< routes by a feedback solve
  token_shares = 32,     ///< its token weights are those of a softmax: shares of 1
  training_memory = 64,  ///< keeps a history of training; no layer of a stack but a part of a model
  series = 128,          ///< reads rows of a series in the place of tokens; a part of a forecaster
  state_modes = 256,     ///< what a token leaves of its memory has known eigenvalues; its readers say which
  tokens = 512,          ///< reads tokens; of a model as a whole, which is no forecaster
  pairs = 1024           ///< stores pairs of a key and a value, which filters can be compared on; its readers say which
};

/// A set of traits: LayerTrait::gate | LayerTrait::feedback.
class LayerTraits {
 public:
  constexpr LayerTraits() = default;
  constexpr LayerTraits(LayerTrait one) : bits_(static_cast<unsigned>(one)) {}
  constexpr bool overlaps(LayerTraits other) const { return (bits_ & other.bits_) != 0; }
  constexpr LayerTraits operator|(LayerTraits other) const {
    LayerTraits both;
    both.bits_ = bits_ | other.bits_;
    return both;
  }
  bool operator==(const LayerTraits&) const = default;

 private:
  unsigned bits_ = 0;
};
constexpr LayerTraits operator|(LayerTrait a, LayerTrait b) { return LayerTraits(a) | b; }

/// Whether a part of this kind shows one of these; false for a kind that does not exist.
bool shows(std::string_view kind, LayerTraits any);
/// The first kind of layer that shows it, for what stands for all of them; "" without one.
std::string_view first_kind_that_shows(LayerTrait trait);

/// "an SKA layer or a Koopman MLP": what a model needs, in words, to have one of these.
std::string words_for(LayerTraits any);

/// Colour of a kind of layer in every figure, an index into the palette; `quiet_ink` for what is no layer.
int layer_ink_index(std::string_view kind);
inline constexpr int quiet_ink = -1;

}  // namespace afterglow
