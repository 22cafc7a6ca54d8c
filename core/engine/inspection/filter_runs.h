// The pairs that one layer stores, as the filters of Gated KalmaNet's section 6 would have written them.
#pragma once
#include <string_view>
#include <vector>

#include "core/engine/analyses/solvers/solver_view.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

class Trainer;

/// Whether layers of this kind store pairs of key and value that a filter can read.
bool has_pairs(std::string_view kind);

/// All filters, Σ_t and the drift of one head.
HeadFilters filters_of(int head, const PairSequence& pairs);
/// Filters on the first 256 tokens of the captured sequence, for as many of the first heads as fit into some tenths of
/// a second.
std::vector<HeadFilters> compare_filters(Trainer& trainer, int part, const CaptureReader& read);

}  // namespace afterglow
