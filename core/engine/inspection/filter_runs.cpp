// Filters of the captured pairs, head by head.
#include "core/engine/inspection/filter_runs.h"

#include <algorithm>
#include <cmath>

#include "core/engine/inspection/layer_weights.h"
#include "core/engine/training/trainer.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

namespace {

constexpr int max_tokens = 256;
constexpr double process_noises[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10};

}  // namespace

HeadFilters filters_of(int head, const PairSequence& pairs) {
  const double cubed = std::pow(pairs.key_width(), 3);
  const int looks = std::clamp(static_cast<int>(3e6 / cubed), 8, 48);  // for Σ_t and for the drift
  HeadFilters found;
  found.head = head;
  for (const FilterKind kind : all_filters) {
    if (kind != FilterKind::kda || pairs.fades_by_channel()) found.runs.push_back(run_filter(kind, pairs));
  }
  found.steady = uncertainty(FilterKind::kalman, pairs, looks);
  found.fading = uncertainty(FilterKind::fading_kalman, pairs, looks);
  for (const bool fades : {false, true}) {
    if (!fades || !pairs.log_decay.empty()) found.sweeps.push_back(sweep_process_noise(fades, process_noises, pairs));
  }
  for (const Arithmetic arithmetic : all_arithmetics) {
    found.drifts.push_back(drift(pairs, arithmetic, 1, looks));
    found.weaker_drifts.push_back(drift(pairs, arithmetic, weak_share, looks));
  }
  return found;
}

bool has_pairs(std::string_view kind) { return readers_of(kind).pairs != nullptr; }

std::vector<HeadFilters> compare_filters(Trainer& trainer, int part, const CaptureReader& read) {
  const CapturedLayer whole = captured_layer(trainer, part, read);
  const CapturedLayer layer = captured_layer(trainer, part, read, std::min(max_tokens, whole.tokens));
  const auto reader = readers_of(trainer.parts()[static_cast<std::size_t>(part)].kind).pairs;
  std::vector<HeadFilters> all;
  double budget = 2e8;  // multiplications
  for (int head = 0; head < layer.heads() && (head == 0 || budget > 0); ++head) {
    const PairSequence pairs = reader(layer, head);
    budget -= layer.tokens * std::pow(pairs.key_width(), 3);
    if (is_sound(pairs)) all.push_back(filters_of(head, pairs));
  }
  return all;
}

}  // namespace afterglow
