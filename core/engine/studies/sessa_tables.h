// The table of Sessa's experiments (section 5).
#pragma once
#include "core/engine/studies/table.h"

namespace afterglow {

/// Long contexts with noise, lags beyond training's as a figure over the lag, and a short context with perplexity and
/// the five most likely answers. The large one has four blocks of width 128, 4 to 16 pairs and lags to 256 in training.
/// The usual one is named where it is listed.
Table sessa_table(TableSize size = TableSize::usual);

}  // namespace afterglow
