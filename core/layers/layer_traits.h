// What a kind of layer can show. Panels, workspaces and analyses use these traits, never the name of a kind.
#pragma once
#include <string>
#include <string_view>

namespace afterglow {

enum class LayerTrait : unsigned {
  koopman_heads = 1,     ///< an `Ska`: each head fits an operator to its keys, which has eigenvalues and can be edited
  koopman_modes = 2,     ///< a `KoopmanMlp`: learned eigenvalues
  ridge_systems = 4,     ///< solves (H + λI) x = q for its tokens; its readers give them
  gate = 8,              ///< its memory has known decays; its readers give them
  feedback = 16,         ///< routes by a feedback solve
  token_shares = 32,     ///< its token weights are those of a softmax: shares of 1
  training_memory = 64,  ///< keeps a history of training; a part of a model, not a layer
  series = 128,          ///< reads rows of a series instead of tokens; a part of a forecaster
  state_modes = 256,     ///< its state transition has known eigenvalues; its readers give them
  tokens = 512,          ///< reads tokens; trait of a whole model that is not a forecaster
  pairs = 1024           ///< stores pairs of key and value, to compare filters; its readers give them
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
/// The first kind of layer that shows it, as an example of all of them; "" without one.
std::string_view first_kind_that_shows(LayerTrait trait);

/// "an SKA layer or a Koopman MLP": what a model needs, in words, to have one of these.
std::string words_for(LayerTraits any);

/// Colour of a kind of layer in every figure, an index into the palette; `quiet_ink` for what is no layer.
int layer_ink_index(std::string_view kind);
inline constexpr int quiet_ink = -1;

}  // namespace afterglow
