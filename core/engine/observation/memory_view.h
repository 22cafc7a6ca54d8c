// What the memory tokens of a model do in the inspected sequence, and what their history holds. Observation's pointer
// is null for a model without memory.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace afterglow {

/// How the M memory tokens and the positions of the sequence attend to each other in one layer, mean over heads.
struct MemoryAttention {
  std::string layer;  ///< "1 attention"
  /// [M][L]: weight of input position t for memory token m; empty if memory comes first and sees no input.
  std::vector<std::vector<double>> reads;
  /// [L][M]: weight of memory token m for input position t.
  std::vector<std::vector<double>> is_read;
};

/// The effect of using less of one quantity than in training, with all of the others.
struct MemoryLess {
  std::string of;              ///< "modes K'", "tokens M'", "rows T'"
  int whole = 0;               ///< K, M, or the number of rows
  int now = 0;                 ///< the present setting
  std::vector<int> kept;       ///< ascending, `whole` last
  std::vector<double> change;  ///< as long as `kept`; as MemoryView::change_without
};

struct MemoryView {
  std::int64_t step = 0;            ///< training step of the weights
  int tokens = 0;                   ///< M
  int input_length = 0;             ///< L, positions shown
  std::int64_t history_rows = 0;    ///< rows in use: at most T'
  std::vector<double> eigenvalues;  ///< [K] of these rows, descending; empty while there are too few
  std::vector<double> explained;    ///< [K] share of its variance in the first k modes
  /// For a forecast: of the first channel of the first window. Softmax weights, or the weights of other layers
  /// (core/analysis/attention/token_weights.h), which may be negative.
  std::vector<MemoryAttention> attention;
  /// For tokens: share of right answers on `examples` held-out sequences, with the memory tokens and with zeros in
  /// their place; NaN while the memory is not in use. A forecast has the error of each window instead
  /// (ForecastWindow::mse_without_memory).
  /// The memory's contents, from the history to the tokens; empty while it is not in use. If there are more rows or
  /// columns than are shown, a cell is the mean of a block.
  int buffer_rows = 0, buffer_columns = 0;
  std::vector<float> buffer;               ///< Hc, the history without its mean, oldest row first
  std::vector<std::vector<double>> modes;  ///< [at most 4][history_rows] temporal modes of all these rows
  int width = 0;                           ///< d
  std::vector<float> components;           ///< [K*d] C_KL (eq. 8), zeros for unused modes
  std::vector<float> token_values;         ///< [M*d] the memory tokens
  std::vector<double> pooling;             ///< [L] pooling weights over the positions (eq. 4), mean over the sequences
  /// [K] effect of leaving mode k out of the tokens: for a forecast the error of the shown windows divided by the error
  /// with all modes, minus 1; for tokens the change of the share of right answers.
  std::vector<double> change_without;
  bool is_of_error = false;      ///< whether it is the former
  std::vector<MemoryLess> less;  ///< of modes, tokens and rows; empty while the memory is not in use
  double change_now = 0;         ///< with the present settings, compared with all modes, tokens and rows
  double accuracy = std::numeric_limits<double>::quiet_NaN(), without = std::numeric_limits<double>::quiet_NaN();
  int examples = 0;
};

class CaptureReader;
class SpectralMemory;

/// The part that depends on the history alone.
MemoryView view_of_history(const SpectralMemory& memory, std::int64_t step);
/// How the memory would do with fewer modes, tokens or rows than it was trained with: fills `less` and `change_now`.
/// `measure` evaluates the model as it is: the error of a forecast (`is_of_error`), else the share of right answers.
/// Calls it about 4 + log2 (K M T) times and restores the memory.
void add_shares(SpectralMemory& memory, MemoryView& view, const std::function<double()>& measure);
/// The tokens, and the pooling weights over the first `input_length` positions.
void read_memory_captures(const CaptureReader& read, MemoryView& view);

}  // namespace afterglow
