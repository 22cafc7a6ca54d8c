// What the memory tokens of a model do in the probe sequence, and what their history holds. The pointer in Observation
// is null for a model without memory.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace afterglow {

/// What the M memory tokens and the positions of the sequence read of each other in one layer, mean over heads.
struct MemoryAttention {
  std::string layer;  ///< "1 attention"
  /// [M][L]: weight that memory token m gives to input position t; empty where memory comes first and sees nothing.
  std::vector<std::vector<double>> reads;
  /// [L][M]: weight that input position t gives to memory token m.
  std::vector<std::vector<double>> is_read;
};

/// What changes when the memory uses less of one thing than it was trained with, and all of the others.
struct MemoryLess {
  std::string of;              ///< "modes K'", "tokens M'", "rows T'"
  int whole = 0;               ///< K, M, or as many rows as there are
  int now = 0;                 ///< as the setting stands
  std::vector<int> kept;       ///< ascending, `whole` last
  std::vector<double> change;  ///< as long as `kept`; as MemoryView::change_without
};

struct MemoryView {
  std::int64_t step = 0;            ///< training step of the weights
  int tokens = 0;                   ///< M
  int input_length = 0;             ///< L, positions shown
  std::int64_t history_rows = 0;    ///< that are used: at most T'
  std::vector<double> eigenvalues;  ///< [K] of these rows, falling; empty while it is too short to be used
  std::vector<double> explained;    ///< [K] share of its variance in the first k modes
  /// Of a forecast: of the first channel of the first window. Weights are softmax weights, but for layers that weigh
  /// tokens otherwise (core/analysis/attention/token_weights.h), which may be negative.
  std::vector<MemoryAttention> attention;
  /// Of tokens: share of right answers on `examples` held-out sequences, with the tokens and with zeros in their place;
  /// NaN while the memory is not in use. A forecast has the error of each window (ForecastWindow::mse_without_memory).
  // What the memory holds, from the history to the tokens; empty while it is not in use. Where there are more rows or
  // columns than are shown, a cell is the mean of a block.
  int buffer_rows = 0, buffer_columns = 0;
  std::vector<float> buffer;               ///< Hc, the history without its mean, oldest row first
  std::vector<std::vector<double>> modes;  ///< [at most 4][history_rows] temporal modes of all these rows
  int width = 0;                           ///< d
  std::vector<float> components;           ///< [K*d] C_KL (eq. 8), zeros for modes that are not used
  std::vector<float> token_values;         ///< [M*d] the memory tokens
  std::vector<double> pooling;             ///< [L] pooling weights over the positions (eq. 4), mean over the sequences
  /// [K] what changes when mode k alone is left out of the tokens: of a forecast the error of the windows shown,
  /// divided by the error with all modes, minus 1; of tokens the share of right answers.
  std::vector<double> change_without;
  bool is_of_error = false;      ///< which of the two
  std::vector<MemoryLess> less;  ///< of modes, tokens and rows; empty while the memory is not in use
  double change_now = 0;  ///< with the settings as they stand, measured likewise against all modes, tokens and rows
  double accuracy = std::numeric_limits<double>::quiet_NaN(), without = std::numeric_limits<double>::quiet_NaN();
  int examples = 0;
};

/// The part that depends on the history alone.
MemoryView view_of_history(const class SpectralMemory& memory, std::int64_t step);

}  // namespace afterglow
