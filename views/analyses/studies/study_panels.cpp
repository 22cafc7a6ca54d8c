// Plots of studies with a sentence next to them, and the buttons that start a study or change what it asks.
#include <array>
#include <cmath>
#include <span>
#include <string>

#include "views/analyses/studies/study_figures.h"
#include "views/figures/studies/sweep_figures.h"
#include "views/panels/panel.h"

namespace afterglow {
namespace {

constexpr double study_line = 18;

/// Words in at most three lines under the only plot.
void draw_plot_with_words(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area,
                          const std::string& words) {
  if (figures.empty() || area.height < frame.px(160)) return draw_figure_grid(frame, panel, figures, area);
  FigureCanvas canvas = frame.look.canvas();
  const auto lines = wrapped_text(canvas, words, area.width - frame.px(38), frame.px(small_size), FontFace::regular,
                                  area.height > frame.px(240) ? 3 : 2);
  const double below = static_cast<double>(lines.size()) * frame.px(study_line) + frame.px(4);
  draw_plot(frame, figures[0], {area.x, area.y, area.width, area.height - below});
  const Rect row{area.x + frame.px(10), area.bottom() - below + frame.px(2), area.width - frame.px(20), 0};
  text_lines(frame.look, canvas, row, lines, frame.px(study_line),
             {small_size, FontFace::regular, frame.look.theme->text, Anchor::start, true});
}

void draw_bisect(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const BisectView* view = frame.seen().bisect.get();
  draw_plot_with_words(frame, panel, figures, area, view ? bisect_text(*view) : "");
}

double draw_bisect_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(120) || frame.seen().folder) return row.right();
  const double other =
      command_chip(frame, {"palette", {{"text", "bisect condition="}}}, "condition", row.right(), row, "condition …",
                   false, "Choose the condition, over any number that `afterglow check --names` lists");
  if (!frame.seen().bisect) return other;
  return command_chip(frame, {"bisect", {}}, "ask", other, row, "Run again", false,
                      "Repeats the training with one part frozen at a time");
}

void draw_microscope(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const MicroscopeView* view = frame.seen().microscope.get();
  draw_plot_with_words(frame, panel, figures, area, view ? microscope_text(*view) : "");
}

double draw_microscope_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(150) || frame.seen().folder) return row.right();
  struct Choice {
    const char *label, *change, *hint;
  };
  static constexpr std::array choices{
      Choice{"nothing", "same", "Changes nothing: both runs must stay equal, bit for bit"},
      Choice{"one token", "token", "Replaces one token in the first sequence of the next batch"},
      Choice{"one bit", "bit", "Flips the lowest bit of one weight"}};
  double right =
      command_chip(frame, {"palette", {{"text", "microscope change="}}}, "other", row.right(), row, "other …", false,
                   "Changes any field of the recipe, the device or the precision, such as learning_rate=0.002");
  const MicroscopeView* view = frame.seen().microscope.get();
  for (const Choice& choice : choices) {
    const bool is_first = !view && choice.change == std::string_view("bit");
    right = command_chip(frame, {"microscope", {{"change", choice.change}}}, choice.change, right, row, choice.label,
                         is_first, choice.hint);
  }
  return right;
}

/// Below the plot: the batch under the pointer, else the chosen one, with as many of its sequences as fit.
void draw_batch(const Frame& frame, const BlameView& view, const std::string& said, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  row_text(frame.look, canvas, {area.x, area.y, area.width, frame.px(study_line)}, said,
           {small_size, FontFace::regular, theme.text, Anchor::start, true});
  double y = area.y + frame.px(study_line);
  for (const std::string& sequence : view.batch.sequences) {
    if (y + frame.px(study_line) > area.bottom()) break;
    row_text(frame.look, canvas, {area.x, y, area.width, frame.px(study_line)}, sequence,
             {tiny_size, FontFace::mono, theme.dim, Anchor::start, true});
    y += frame.px(study_line);
  }
}

void draw_blame(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const BlameView* view = frame.seen().blame.get();
  const double lines = area.height > frame.px(260) ? 4 : 1;
  if (figures.empty() || view == nullptr || area.height < frame.px(150))
    return draw_figure_grid(frame, panel, figures, area);
  const double below = lines * frame.px(study_line) + frame.px(4);
  const Rect strip{area.x, area.y, area.width, area.height - below};
  const PlotResponse response = draw_plot(frame, figures[0], strip);
  if (const std::int64_t clicked = batch_of_point(response.clicked_point); clicked >= 0)
    frame.commands.send("blame", {{"batch", clicked}});
  const std::int64_t hovered =
      response.hovered && response.place ? static_cast<std::int64_t>(std::lround(response.place->x)) : -1;
  std::string said = batch_text(*view, hovered);
  if (said.empty()) said = batch_text(*view, view->batch.step);
  if (said.empty())
    said = view->batch.step >= 0
               ? "step " + std::to_string(view->batch.step) + ": the training without its batch has not run yet."
               : "Click a dot to see its batch.";
  draw_batch(frame, *view, said,
             {area.x + frame.px(8), strip.bottom() + frame.px(2), area.width - frame.px(16), below});
}

double draw_blame_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(90) || frame.seen().folder) return row.right();
  const BlameView* view = frame.seen().blame.get();
  const double ask =
      command_chip(frame, {"blame", {}}, "ask", row.right(), row, view ? "Run again" : "Run", view == nullptr,
                   "Repeats the training up to here without each of the last 100 batches");
  if (!view || row.width < frame.px(260)) return ask;
  const double number = command_chip(
      frame, {"blame", {{"result", view->metrics[(view->shown + 1) % view->metrics.size()].name}}}, "number",
      ask - frame.px(6), row, view->metrics[view->shown].name, true, "Compares another number of the same repetitions");
  if (view->batch.step < 0) return number;
  return command_chip(frame, {"skip", {{"step", view->batch.step}}}, "skip", number - frame.px(6), row,
                      "train on without it", false,
                      "Rewinds to just before the chosen step and trains on without its batch");
}

void draw_over_training(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const bool is_one = frame.state.figure_of(panel.kind->id) >= 0;
  if (figures.size() < 2 || is_one || area.height < frame.px(200)) return draw_figure_grid(frame, panel, figures, area);
  const double upper = 0.42 * area.height;
  draw_plot(frame, figures[1], {area.x, area.y, area.width, upper});
  draw_plot(frame, figures[0], {area.x, area.y + upper, area.width, area.height - upper});
}

double draw_over_training_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(120)) return row.right();
  const double other =
      command_chip(frame, {"palette", {{"text", "over_training number="}}}, "number", row.right(), row,
                   "choose number …", false, "Follows another number of those that `afterglow check --names` lists");
  const bool is_asked = frame.seen().over_training != nullptr;
  double right = other;
  for (const char* number : {"kappa", "spectral_radius"}) {
    if (row.width < frame.px(260) && number == std::string_view("kappa")) continue;
    const bool is_shown = is_asked && frame.seen().over_training->number == number;
    right = command_chip(frame, {"over_training", {{"number", number}}}, number, right, row, words_of(number),
                         is_shown || (!is_asked && right == other),
                         "Follows the " + words_of(number) + " over all kept steps");
  }
  return right;
}

void draw_run(Frame& frame, std::span<const Figure> figures, const Rect& area) {
  const double height = area.height / static_cast<double>(figures.size());
  double y = area.y;
  for (const Figure& figure : figures) {
    handle_response(frame, plot_widget(frame, figure, {area.x, y, area.width, height}));
    y += height;
  }
}

/// The run under the pointer, else the best one.
void draw_phase_map(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const bool has_room = area.width > frame.px(560);
  const bool is_one_chosen = frame.state.figure_of(panel.kind->id) >= 0;
  if (figures.empty() || !frame.seen().phase_map || !has_room || is_one_chosen)
    return draw_figure_grid(frame, panel, figures, area);
  const double gap = frame.px(8), left = 0.6 * area.width;
  const PlotResponse map = draw_plot(frame, figures[0], {area.x, area.y, left - gap, area.height});
  const PhaseMapView& view = *frame.seen().phase_map;
  if (const std::int64_t clicked = run_of_point(map.clicked_point); clicked >= 0)
    frame.commands.send("phase_map", {{"open", clicked}});
  const Rect rest{area.x + left, area.y, area.width - left, area.height};
  const std::optional<std::size_t> hovered = map.place ? run_at(view, map.place->x, map.place->y) : std::nullopt;
  if (hovered) {
    draw_run(frame, phase_run_figures(view, *hovered), rest);
  } else if (figures.size() > 1) {
    draw_run(frame, std::span(figures).subspan(1), rest);
  } else {
    draw_sentence(frame,
                  "Every cell is a training of its own with these two settings; its colour is the result. The first "
                  "runs lie far apart, later ones between them. This place shows the best one that has finished.",
                  rest);
  }
}

double draw_phase_map_controls(Frame& frame, const Rect& row) {
  const PhaseMapView* map = frame.seen().phase_map.get();
  if (!map || row.width < frame.px(200)) return row.right();
  const std::vector<RunMetric>& numbers = map->sweep.metrics;
  const double number = command_chip(
      frame, {"phase_map", {{"result", numbers[(map->shown + 1) % numbers.size()].name}}}, "number", row.right(), row,
      words_of(numbers[map->shown].name), true, "Shows another number of the same runs as colour");
  // The palette shows the present axes for editing.
  const std::string axes = "phase_map x=" + map->x + " y=" + map->y + " steps=" + std::to_string(map->steps);
  return command_chip(frame, {"palette", {{"text", axes}}}, "axes", number - frame.px(6), row, "axes", false,
                      "Choose two settings, their values and the number of steps of each run");
}

}  // namespace

std::vector<PanelDrawing> study_drawings() {
  return {{"bisect", draw_bisect, draw_bisect_controls},
          {"blame", draw_blame, draw_blame_controls},
          {"microscope", draw_microscope, draw_microscope_controls},
          {"over_training", draw_over_training, draw_over_training_controls},
          {"phase_map", draw_phase_map, draw_phase_map_controls}};
}

}  // namespace afterglow
