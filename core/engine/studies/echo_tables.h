// The tables of Echo's experiments (Koopman attention).
#pragma once
#include "core/engine/studies/table.h"

namespace afterglow {

/// Section 4.1 and appendix G: tool calls, economy, reasoning and specific recall, easy and hard, with and without the
/// action mask, at two output gains (figures 2, 3 and 5).
Table echo_recall_table(bool is_small = false);
/// Section 5.2: associative recall of 4 to 32 pairs over gaps of 64 to 4,096 tokens, each cell trained by itself until
/// it is learned. Minutes on a GPU with a million weights; the large one has the paper's fifty million.
Table echo_mqar_table(TableSize size = TableSize::usual);
/// Section 5.1, tables 2 and 3 and figure 1; the small one ends within two minutes on two cores and shows only that all
/// of it works.
Table echo_transfer_table(bool is_small = false);
/// The tasks of section 5.1 that no model of ours answers without training on them, each trained by itself.
Table echo_in_task_table(bool is_small = false);
/// Section 6.1 and appendix E: the power K, norms of single tokens, a gate on the injection, the output gain.
Table echo_ablation_table(bool is_small = false);

/// Section 3.3: SwiGLU beside the Koopman MLP with as many weights, with two thirds of them, and gated, on recall and
/// on text. The small one learns to the end within two minutes on two cores.
Table echo_mlp_table(bool is_small = false);

/// Section 3.4: Mamba-2 with SwiGLU, with SKA, and Echo, on text, with held-out loss and perplexity; Echo also with
/// MLPs of SwiGLU's size. Two blocks, eight (minutes on a GPU for each run), and the sixteen of Echo-50M.
Table echo_text_table(TableSize size = TableSize::usual);

}  // namespace afterglow
