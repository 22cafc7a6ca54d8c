// Chooses the Jacobian blocks for sources and lags, and turns their norms into a tail.
#pragma once
#include <span>
#include <vector>

#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/influence/jacobian_measure.h"

namespace afterglow {

/// Every source with lags 1, 2, .. up to the last that all sources have, `per_decade` lags a decade.
std::vector<JacobianPlan::Block> influence_blocks(std::span<const int> sources, int tokens, int per_decade);

/// Lags, values and bounds: at each lag the mean over the sources. Norms are ordered as the blocks; exact norms give no
/// bounds.
void fill_tail(InfluenceTail& tail, std::span<const JacobianPlan::Block> blocks, std::span<const NormEstimate> norms);
/// Sets fit, lag of 1 % and silence from lags and values.
void judge_tail(InfluenceTail& tail);
/// A tail of fixed routing: the mean of |w[tau + l, tau]| over the sources at spread lags, and over the matrices.
void fill_tail(InfluenceTail& tail, std::span<const std::vector<float>> weights, std::span<const int> sources,
               int tokens, int per_decade);

}  // namespace afterglow
