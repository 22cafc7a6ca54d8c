// What panels see of a pair of sequences.
#pragma once
#include <span>

#include "core/engine/observation/causes_view.h"
#include "core/engine/probing/sequence_pair.h"

namespace afterglow {

/// `clean` and `corrupted` are the model's logits at the asked token.
PairView view_of(const SequencePair& pair, std::span<const double> clean, std::span<const double> corrupted,
                 const Task& task);

/// (now - corrupted) / (clean - corrupted); NaN where both sequences are answered alike.
double restored_share(double clean, double corrupted, double now);

/// "blocks.1.attn.hook_k" of "layers.1.ska.keys", as TransformerLens names the places of a transformer.
std::string hook_name(const std::string& place, bool is_mixer, bool is_first_of_block);

}  // namespace afterglow
