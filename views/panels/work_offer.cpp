// One row: the computed part, the time of the whole, and two buttons that send `measure`.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/panels/panel.h"

namespace afterglow {
namespace {

constexpr double long_seconds = 8, minute = 60, short_whole = 10 * minute, row_height = 26;

void offer(Frame& frame, const AnalysisWork& work, double part, const std::string& label, const Rect& row,
           double& right) {
  right = command_button(frame, right, row, {"measure", {{"analysis", work.name}, {"part", part}}}, label, Icon::none,
                         ButtonKind::normal,
                         "Measures " + (part < 1 ? number_text(100 * part, 2) + " % of it" : "all of it")) -
          frame.px(6);
}

}  // namespace

const AnalysisWork* long_work(const PlotKind& kind, const Observation& observation) {
  const AnalysisWork* longest = nullptr;
  for (std::size_t i = 0; i < observation.work.size(); ++i) {
    const AnalysisWork& work = observation.work[i];
    const bool is_shown = has(kind.analyses, static_cast<Analysis>(AnalysisSet{1} << i));
    if (is_shown && work.seconds > (longest ? longest->seconds : long_seconds)) longest = &work;
  }
  return longest;
}

std::string long_work_sentence(const PlotKind& kind, const Observation& observation) {
  const AnalysisWork* work = long_work(kind, observation);
  if (!work) return "";
  return (work->part > 0 && work->part < 1 ? "All of it takes about " : "With this model it takes about ") +
         rough_duration_text(work->seconds) + ".";
}

double larger_part(const AnalysisWork& work, double seconds) {
  const double part = work.part + seconds / work.seconds;
  if (part >= 1) return 1;
  const double unit = std::pow(10, std::floor(std::log10(part)) - 1);
  return std::min(1.0, std::ceil(part / unit - 1e-9) * unit);
}

double draw_work_offer(Frame& frame, const PlotKind& kind, const Rect& area) {
  const AnalysisWork* work = long_work(kind, frame.seen());
  const double height = frame.px(row_height);
  if (!work || work->part >= 1 || area.height < 3 * height) return 0;
  const Rect row{area.x + frame.px(8), area.bottom() - height, area.width - frame.px(12), height};
  double right = row.right();
  const std::string time = rough_duration_text(work->seconds);
  offer(frame, *work, 1, work->part > 0 ? "All" : "Measure", row, right);
  // Waiting work has pieces longer than a minute, or has not begun.
  if (const double more = larger_part(*work, minute); more < 1 && work->part > 0)
    offer(frame, *work, more, "+1 min", row, right);
  if (work->part <= 0 && work->seconds > short_whole) offer(frame, *work, 0.01, "1 %", row, right);
  FigureCanvas canvas = frame.look.canvas();
  const std::string text =
      work->part > 0 ? number_text(100 * work->part, 2) + " % of about " + time : "not started: takes about " + time;
  row_text(frame.look, canvas, {row.x, row.y, std::max(0.0, right - row.x), row.height}, text,
           {small_size, FontFace::regular, frame.look.theme->dim, Anchor::start});
  return height;
}

}  // namespace afterglow
