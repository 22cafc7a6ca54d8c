// Prepares the memory of training for figures.
#include "core/engine/observation/memory_view.h"

#include <algorithm>

#include "core/layers/capture_reader.h"
#include "core/layers/spectral_memory.h"

namespace afterglow {
namespace {

constexpr int max_cells = 128, max_modes = 4;  // on a side; of a history

/// Means over blocks of a matrix [rows*columns], at most `max_cells` on a side, less the mean row.
void show_buffer(const std::vector<double>& values, int rows, int columns, MemoryView& view) {
  view.buffer_rows = std::min(rows, max_cells);
  view.buffer_columns = std::min(columns, max_cells);
  std::vector<double> mean(static_cast<std::size_t>(columns), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) mean[i % mean.size()] += values[i] / rows;
  const auto cells = static_cast<std::size_t>(view.buffer_rows) * static_cast<std::size_t>(view.buffer_columns);
  std::vector<double> sums(cells, 0.0), counts(cells, 0.0);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      const std::int64_t row = std::int64_t{i} * view.buffer_rows / rows,
                         column = std::int64_t{j} * view.buffer_columns / columns;
      const auto cell = static_cast<std::size_t>(row * view.buffer_columns + column);
      sums[cell] += values[static_cast<std::size_t>(i) * mean.size() + static_cast<std::size_t>(j)] -
                    mean[static_cast<std::size_t>(j)];
      ++counts[cell];
    }
  }
  for (std::size_t cell = 0; cell < cells; ++cell) view.buffer.push_back(static_cast<float>(sums[cell] / counts[cell]));
}

/// whole, whole / 2, .. above `least`, and `least`; ascending.
std::vector<int> halves(int whole, int least) {
  std::vector<int> kept;
  for (int number = whole; number > least; number /= 2) kept.push_back(number);
  kept.push_back(least);
  std::ranges::reverse(kept);
  return kept;
}

}  // namespace

MemoryView view_of_history(const SpectralMemory& memory, std::int64_t step) {
  MemoryView view;
  view.step = step;
  view.tokens = static_cast<int>(memory.config().tokens);
  const int kept_rows = memory.kept().rows;
  view.history_rows = std::min(memory.history().rows(), kept_rows);
  const KlDecomposition& kl = memory.decomposition();
  view.eigenvalues = kl.eigenvalues;
  view.explained = kl_explained_variance(kl);
  view.width = static_cast<int>(memory.config().width);
  if (!memory.usable()) return view;
  const std::vector<double> components = memory.used_components();
  view.components.assign(components.begin(), components.end());
  show_buffer(memory.history().values(kept_rows), static_cast<int>(view.history_rows), view.width, view);
  const KlDecomposition whole = memory.history().decompose(memory.config().kl, kept_rows);
  if (memory.config().kl.strategy == KlStrategy::kernel) {
    // The kernel's eigenvalues are not shares of the rows' variance; the errors of its modes are.
    const std::vector<double> errors = kl_reconstruction_errors(whole, memory.history().values(kept_rows));
    for (std::size_t k = 0; k < view.explained.size(); ++k) view.explained[k] = 1 - errors[k + 1] * errors[k + 1];
  }
  for (int k = 0; k < std::min(max_modes, whole.count); ++k) {
    std::vector<double>& mode = view.modes.emplace_back();
    for (int t = 0; t < whole.rows; ++t)
      mode.push_back(whole.modes[static_cast<std::size_t>(t) * static_cast<std::size_t>(whole.count) +
                                 static_cast<std::size_t>(k)]);
  }
  return view;
}

void add_shares(SpectralMemory& memory, MemoryView& view, const std::function<double()>& measure) {
  const MemoryShare as_set = memory.kept();
  MemoryShare whole = memory.whole();
  whole.rows = std::min(whole.rows, memory.history().rows());
  const auto measured = [&](const MemoryShare& share) {
    memory.keep(share);
    return measure();
  };
  const double with_all = measured(whole);
  const auto change = [&](const MemoryShare& share) {
    return view.is_of_error ? measured(share) / with_all - 1 : measured(share) - with_all;
  };
  const auto add = [&](const char* of, int MemoryShare::*number, int least) {
    MemoryLess less{of, whole.*number, std::min(as_set.*number, whole.*number), halves(whole.*number, least), {}};
    for (const int kept : less.kept) {
      MemoryShare share = whole;
      share.*number = kept;
      less.change.push_back(kept == less.whole ? 0.0 : change(share));
    }
    view.less.push_back(std::move(less));
  };
  add("modes K'", &MemoryShare::modes, 0);
  add("tokens M'", &MemoryShare::tokens, 0);
  add("rows T'", &MemoryShare::rows, memory.least_rows());
  view.change_now = change(as_set);
}

void read_memory_captures(const CaptureReader& read, MemoryView& view) {
  const std::vector<double>& tokens = read.values("memory.tokens");
  view.token_values.assign(tokens.begin(), tokens.end());
  const std::vector<double>& weights = read.values("memory.pooling");
  if (weights.empty()) return;
  const auto length = static_cast<std::size_t>(read.shape("memory.pooling").last()),
             sequences = weights.size() / length;
  view.pooling.assign(std::min(length, static_cast<std::size_t>(std::max(0, view.input_length))), 0.0);
  for (std::size_t s = 0; s < sequences; ++s) {
    for (std::size_t t = 0; t < view.pooling.size(); ++t)
      view.pooling[t] += weights[s * length + t] / static_cast<double>(sequences);
  }
}

}  // namespace afterglow
