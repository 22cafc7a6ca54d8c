// The network of theorem 12 (Sessa, appendix K), block by block, and the stacks that it is compared with.
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

/// The task of the network: transport the signal of token `source` to every later token t with the strength
/// (t - source)^(jumps (1 - beta) - 1), and suppress that of all other tokens.
struct RetrievalNetwork {
  int width = 8;      ///< D, at least 8: seven channels are used
  int tokens = 256;   ///< T, the longest sequence it is written for
  int jumps = 2;      ///< k, macro-layers
  double beta = 0.5;  ///< 0 < beta < 1; the gain of the diffuse feedback is 1 - beta
  int source = 4;     ///< the token that is selected
  double leak = 0;    ///< gain that the selector leaves to all other tokens; 0: that of a sharp attention, 1e-13
  bool operator==(const RetrievalNetwork&) const = default;
};

/// Channels of the stream (remark K.27); the eighth is spare.
enum RetrievalChannel {
  signal_channel,
  position_channel,
  window_channel,
  profile_channel,
  tail_channel,
  scratch_channel,
  second_scratch_channel,
  retrieval_channels
};

/// Inputs may have any numbers of at most this size.
inline constexpr double retrieval_input_bound = 1;

/// {"beta": 0.5, "jumps": 2, "source": 4, "leak": 0, "tokens": 256}; missing fields keep their value. Throws
/// Error(bad_input) that names the field.
RetrievalNetwork parse_retrieval_network(const nlohmann::json& value, RetrievalNetwork network,
                                         const std::string& where);

/// 11 + 2 `jumps` Sessa blocks without norm: the position writer (corollary 4.11), the profile (t + 1)^(1 - beta) in
/// eight blocks (corollary K.21), the selector in two (lemma K.12), each macro-layer in two (lemma K.22).
std::vector<WrittenBlock> retrieval_blocks(const RetrievalNetwork& network);

/// Theorem 14's encoding of the past (lemma I.16): block `lag` = 1 .. width - 1 writes the signal of the token `lag`
/// before to channel `lag`, which is to be 0 before; at the first `lag` tokens that of another token. No feedback.
std::vector<WrittenBlock> copy_blocks(int width, int tokens);

/// Uniform attention over the prefix, which adds the signal's mean to the signal: the diffuse regime at its limit.
std::vector<WrittenBlock> diffuse_attention_blocks(int width, int depth);
/// A state that decays by exp(-step) per token for any input, with the input's weight 1 - exp(-step) (zero-order hold):
/// a layer that cannot freeze time.
std::vector<WrittenBlock> failed_freeze_blocks(int width, int depth, double step);

}  // namespace afterglow
