// Networks with constructed instead of learned weights, as in proofs.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/layers/layer.h"

namespace afterglow {

/// One block of such a network. Parameters that `weights` does not name keep their start values.
struct WrittenBlock {
  std::string role;                                    ///< what it does, as text for the user: "writes the position"
  std::string kind;                                    ///< of its layer
  nlohmann::json mixer;                                ///< the layer's fields, width among them
  std::map<std::string, std::vector<double>> weights;  ///< row-major, by the layer's own names: "W_in.weight"
};

/// Copies the block's weights into the parameters of the layer with this prefix, over their start values. Throws
/// Error(bad_input) where a name or a size is not the layer's.
void write_weights(ParameterStore& store, const std::string& prefix, const WrittenBlock& block);

/// The blocks as a stack of layers in float64: x += layer(x), or x = layer(x) for a whole block. No norm.
class WrittenStack {
 public:
  WrittenStack(const std::vector<WrittenBlock>& blocks, Backend& backend);
  Var forward(Tape& tape, const Var& x);
  /// Of the last block's layer.
  std::string_view kind() const { return parts_.back().layer->kind(); }
  /// The residual stream before block `block`; that after the last one for `block` = number of blocks.
  Var stream_before(Tape& tape, const Var& x, std::size_t block);

 private:
  struct Part {
    std::unique_ptr<Layer> layer;
    bool is_whole_block;
  };
  ParameterStore store_;
  std::vector<Part> parts_;
};

}  // namespace afterglow
