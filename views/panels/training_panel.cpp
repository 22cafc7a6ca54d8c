// The switch of the smoothing; the usual grid draws the rest.
#include <algorithm>
#include <array>

#include "core/figure/axis.h"
#include "views/panels/panel.h"

namespace afterglow {
namespace {

double draw_earlier_runs(Frame& frame, double right, const Rect& row) {
  if (frame.seen().runs.size() < 2 || row.width < frame.px(110)) return right;
  const EarlierRuns now = frame.state.selection.earlier;
  static constexpr std::array<const char*, earlier_runs_names.size()> labels{"earlier runs", "runs in colour",
                                                                             "this run only", "seeds"};
  const auto next = static_cast<EarlierRuns>((static_cast<std::size_t>(now) + 1) % earlier_runs_names.size());
  return command_chip(frame, {"select", {{"earlier", name_of(next)}}}, "earlier", right, row,
                      labels[static_cast<std::size_t>(now)], now != EarlierRuns::hidden,
                      "Shows earlier runs and what a change replaced in grey, in colour, not at all, or the "
                      "runs of other seeds as mean and spread");
}

struct Averaging {
  double smoothing = 0;
  int window = 0;
  bool operator==(const Averaging&) const = default;
};
constexpr std::array averagings{Averaging{0.9, 0}, Averaging{0.98, 0}, Averaging{0, 50}, Averaging{0, 0}};

double draw_training_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(90)) return row.right();
  const Averaging now{frame.state.selection.smoothing, frame.state.selection.window};
  const std::string label = now.window > 0      ? "mean of " + std::to_string(now.window) + " steps"
                            : now.smoothing > 0 ? "smooth " + number_text(now.smoothing, 3)
                                                : "raw";
  const auto at = std::ranges::find(averagings, now);
  const Averaging next = at == averagings.end() || at + 1 == averagings.end() ? averagings.front() : *(at + 1);
  const double left =
      command_chip(frame, {"select", {{"smoothing", next.smoothing}, {"window", next.window}}}, "smoothing",
                   row.right(), row, label, false,
                   "Exponential average with bias correction (0.9, 0.98), mean of the last 50 steps, or off. The raw "
                   "curve stays visible.");
  return draw_earlier_runs(frame, left, {row.x, row.y, left - row.x, row.height});
}

}  // namespace

std::vector<PanelDrawing> training_drawings() { return {{"training", draw_figure_grid, draw_training_controls}}; }

}  // namespace afterglow
