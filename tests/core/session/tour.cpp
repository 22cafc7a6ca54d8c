// Commands of the tour, each when the one before it is seen.
#include "tests/core/session/tour.h"

#include <algorithm>

#include "core/engine/analyses/inspected/inspected_view.h"

namespace afterglow {
namespace {

constexpr std::int64_t first_trained_steps = 20;  // before the tour: the first three steps still allocate

/// Every analysis is current and training rests.
bool is_seen(const Observation& now) { return !now.running && (now.current & all_analyses) == all_analyses; }

/// The run has trained and, if the recipe evaluates, evaluated.
bool is_warm(const Observation& now) {
  const bool evaluates = std::ranges::any_of(
      now.settings, [](const Setting& setting) { return setting.key == "evaluate_every" && setting.value > 0; });
  return now.step >= first_trained_steps && (!evaluates || !now.runs.back().held_out_step.empty());
}

bool has_heads_to_edit(const Observation& now) {
  return std::ranges::any_of(now.model.layers,
                             [](const LayerSummary& layer) { return shows(layer.kind, LayerTrait::koopman_heads); });
}

}  // namespace

bool Tour::advance(Session& session, const Observation& now) {
  const bool is_edited = now.inspected && !now.inspected->setup.interventions.empty();
  switch (next_) {
    case Stop::train:
      if (!is_warm(now)) return false;
      session.send({"pause"});
      next_ = Stop::analyse;
      return false;
    case Stop::analyse:
      if (!is_seen(now)) return false;
      if (has_heads_to_edit(now)) session.send({"head_off", {{"head", 0}}});
      next_ = has_heads_to_edit(now) ? Stop::edit : Stop::restore;
      return false;
    case Stop::edit:
      if (!is_edited || !is_seen(now)) return false;
      session.send({"clear_overrides"});
      next_ = Stop::restore;
      return false;
    case Stop::restore:
      if (is_edited || !is_seen(now)) return false;
      session.send({"run"});
      next_ = Stop::home;
      return true;
    case Stop::home:
      return true;
  }
  return true;
}

}  // namespace afterglow
