// Halves one of K, M and T repeatedly; the others stay whole.
#include "core/engine/inspection/memory_shares.h"

#include <algorithm>

namespace afterglow {

namespace {

/// whole, whole / 2, .. above `least`, and `least`; ascending.
std::vector<int> halves(int whole, int least) {
  std::vector<int> kept;
  for (int number = whole; number > least; number /= 2) kept.push_back(number);
  kept.push_back(least);
  std::ranges::reverse(kept);
  return kept;
}

}  // namespace

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
