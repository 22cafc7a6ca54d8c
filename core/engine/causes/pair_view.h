// Describes a pair of sequences for panels.
#pragma once
#include <span>

#include "core/engine/inspection/sequence_pair.h"
#include "core/engine/observation/causes_view.h"

namespace afterglow {

/// `clean` and `corrupted` are the model's logits at the queried token.
PairView view_of(const SequencePair& pair, std::span<const double> clean, std::span<const double> corrupted,
                 const Task& task);

/// (now - corrupted) / (clean - corrupted); NaN if clean and corrupted are equal.
double restored_share(double clean, double corrupted, double now);

/// "layers.1.ska.keys" -> "blocks.1.attn.hook_k", TransformerLens' name of the hook point.
std::string hook_name(const std::string& place, bool is_mixer, bool is_first_of_block);

}  // namespace afterglow
