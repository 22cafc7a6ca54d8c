// The pair of sequences as two strips above the patch grid, and the memories of both runs next to each other: dragging
// a block from the left to the right puts it into the corrupted run.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/figure/axis.h"
#include "core/figure/palette.h"
#include "views/analyses/causes/causes_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/panels/panel.h"
#include "views/widgets/plot_widget.h"

namespace afterglow {
namespace {

constexpr double chip_line = 23, answer_width = 118, name_width = 66, sentence_line = 18;

/// "k1 → v23 0.998" at the right end of a strip.
void draw_pair_answer(const Frame& frame, const Rect& row, const std::string& key, const std::string& answer,
                      double probability, Color ink) {
  FigureCanvas canvas = frame.look.canvas();
  const double used = row_text(frame.look, canvas, row, key + " → ",
                               {small_size, FontFace::mono, frame.look.theme->dim, Anchor::start});
  row_text(frame.look, canvas, {row.x + used, row.y, row.width - used, row.height},
           answer + " " + number_text(probability, 3), {small_size, FontFace::mono, ink, Anchor::start});
}

/// The right ends of the chips: noise gets narrow ones, so that the others stay readable; if those are too many, only
/// the changed ones with the token before them and the asked one are wide.
std::vector<double> chip_ends(const Frame& frame, const PairView& pair, double room) {
  const auto is_quiet = [&](std::size_t t) {
    return token_ink(pair.clean[t].role).role == Role::faint && token_ink(pair.corrupted[t].role).role == Role::faint;
  };
  const auto is_changed = [&](std::size_t t) {
    return std::ranges::find(pair.changed, static_cast<int>(t)) != pair.changed.end();
  };
  const auto is_named = [&](std::size_t t) {
    return is_changed(t) || is_changed(t + 1) || static_cast<int>(t) == pair.asked;
  };
  const std::size_t count = pair.clean.size();
  double loud = 0, named = 0;
  for (std::size_t t = 0; t < count; ++t) {
    loud += is_quiet(t) ? 0 : 1;
    named += is_named(t) ? 1 : 0;
  }
  const bool is_crowded = loud * frame.px(20) > room;
  const double wide_ones = is_crowded ? named : loud, narrow_ones = static_cast<double>(count) - wide_ones;
  const double wide = std::min(frame.px(26), room / (wide_ones + 1));
  const double narrow = narrow_ones > 0 ? std::min(frame.px(26), (room - wide_ones * wide) / narrow_ones) : 0;
  std::vector<double> ends;
  double end = 0;
  for (std::size_t t = 0; t < count; ++t)
    ends.push_back(end += (is_crowded ? is_named(t) : !is_quiet(t)) ? wide : narrow);
  return ends;
}

/// One sequence; chips that differ from the other one are outlined. A click selects a clean token, or opens the command
/// for another corrupted one.
void draw_strip(Frame& frame, const PairView& pair, bool is_clean, const Rect& row) {
  const std::vector<TokenView>& tokens = is_clean ? pair.clean : pair.corrupted;
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  row_text(frame.look, canvas, row, is_clean ? "clean" : "corrupted",
           {small_size, FontFace::regular, theme.dim, Anchor::start});
  const double left = row.x + frame.px(name_width);
  const std::vector<double> ends = chip_ends(frame, pair, row.width - frame.px(name_width + answer_width + 8));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const double begin = t == 0 ? 0 : ends[t - 1], width = ends[t] - begin;
    const Rect chip{left + begin, row.y + frame.px(1), std::max(1.0, width - frame.px(width > frame.px(8) ? 2 : 1)),
                    row.height - frame.px(4)};
    ImGui::PushID(static_cast<int>(t) * 2 + (is_clean ? 1 : 0));
    const Press press = press_area("pair token", chip);
    ImGui::PopID();
    draw_token_chip(frame, canvas, tokens[t], chip, {false, press.hovered});
    if (std::ranges::find(pair.changed, static_cast<int>(t)) != pair.changed.end())
      canvas.stroke_rect(chip, frame.px(3), {theme.warning, std::max(1.0, frame.px(1.5)), Dash::solid});
    const std::string name = "Token " + std::to_string(t) + " " + tokens[t].label;
    if (press.hovered) hint_box(frame, chip, is_clean ? name : name + ": click to replace it");
    if (press.clicked && is_clean) frame.commands.send("select", {{"token", t}});
    if (press.clicked && !is_clean)
      frame.commands.send("palette", {{"text", "pair at=" + std::to_string(t) + " label="}});
  }
  const double end = left + (ends.empty() ? 0 : ends.back()) + frame.px(8);
  const Rect answer{end, row.y, std::max(0.0, row.right() - end), row.height};
  const std::string& key = tokens[static_cast<std::size_t>(pair.asked)].label;
  if (is_clean) {
    draw_pair_answer(frame, answer, key, pair.clean_label, pair.clean_probability, theme.series[0]);
  } else {
    draw_pair_answer(frame, answer, key, pair.corrupted_label, pair.corrupted_probability, theme.warning);
  }
}

/// Above the grid: a sentence about its brightest cell, of which two lines that are too short show what stands before
/// its colon; or the cell under the pointer.
void draw_patch_sentence(const Frame& frame, const std::string& text, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const auto wrapped = [&](const std::string& words) {
    return wrapped_text(canvas, words, area.width, frame.px(body_size), FontFace::regular, 2);
  };
  std::vector<std::string> lines = wrapped(text);
  const std::size_t colon = text.find(": with ");
  if (colon != std::string::npos && lines.back().ends_with("…")) lines = wrapped(text.substr(0, colon) + ".");
  text_lines(frame.look, canvas, area, lines, frame.px(sentence_line),
             {body_size, FontFace::regular, frame.look.theme->text, Anchor::start});
}

/// The grids that fit, the most informative ones first.
std::vector<std::size_t> shown_grids(const Frame& frame, const std::vector<Figure>& figures, const Rect& area) {
  const int chosen = frame.state.figure_of("patch");
  if (chosen >= 0 && chosen < static_cast<int>(figures.size())) return {static_cast<std::size_t>(chosen)};
  const auto room = static_cast<std::size_t>(std::max(1.0, area.width / frame.px(430)));
  std::vector<std::size_t> shown;
  for (std::size_t i = figures.size(); i-- > 0;) shown.push_back(i);
  std::ranges::stable_sort(shown, std::less<>(), [&](std::size_t i) {
    const PatchGroup group = patch_group(figures[i].id);
    if (figures[i].id == patch_path_id) return 3;
    return group == PatchGroup::memory ? 0 : group == PatchGroup::stream ? 1 : 2;
  });
  shown.resize(std::min(shown.size(), room));
  std::ranges::sort(shown);
  return shown;
}

/// The sentence of the memory grid, if it is shown, because it says most.
std::string grid_sentence(const PatchView& view, const std::vector<Figure>& figures,
                          const std::vector<std::size_t>& shown) {
  const auto is_memory = [&](std::size_t i) { return patch_group(figures[i].id) == PatchGroup::memory; };
  const auto best = std::ranges::find_if(shown, is_memory);
  const Figure& figure = figures[best == shown.end() ? shown.front() : *best];
  return figure.id == patch_path_id ? patch_path_sentence(view) : patch_sentence(view, patch_group(figure.id));
}

/// A cell of a grid selects its part and token; one of a memory is put into the corrupted run.
void choose_cell(Frame& frame, const PatchView& view, int row, int token) {
  const PatchRow& of = view.rows[static_cast<std::size_t>(row)];
  frame.commands.send("select", {{"layer", of.layer}, {"token", token}});
  if (of.group == PatchGroup::memory)
    frame.commands.send("transplant", {{"layer", of.layer}, {"part", of.place}, {"token", token}});
}

/// The grids; returns the text of the cell under the pointer.
std::string draw_grids(Frame& frame, const std::vector<Figure>& figures, const Rect& area) {
  const PatchView& view = *frame.seen().patch;
  const std::vector<std::size_t> shown = shown_grids(frame, figures, area);
  const double width = area.width / static_cast<double>(shown.size());
  std::string said;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const Figure& figure = figures[shown[i]];
    const Rect cell{area.x + static_cast<double>(i) * width, area.y, width - frame.px(4), area.height};
    const PlotOptions options{.shows_caption = false};
    const PlotResponse response = plot_widget(frame, figure, cell, options);
    handle_response(frame, response);
    if (!response.hovered || !response.place) continue;
    if (figure.id == patch_path_id) {
      said = patch_path_text(view, static_cast<int>(std::lround(response.place->y)),
                             static_cast<int>(std::lround(response.place->x)) + 1);
      continue;
    }
    const int row = patch_row(view, patch_group(figure.id), static_cast<int>(std::lround(response.place->y)));
    const auto token = static_cast<int>(std::lround(response.place->x));
    if (row < 0 || token < 0 || token >= view.tokens) continue;
    said = patch_cell_text(view, row, token);
    if (ImGui::IsMouseReleased(0) && !is_dragged(frame, 0)) choose_cell(frame, view, row, token);
  }
  return said;
}

void draw_patch(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  if (figures.empty() || !frame.seen().patch) return draw_figure_grid(frame, panel, figures, area);
  const PatchView& view = *frame.seen().patch;
  const Rect inside{area.x + frame.px(10), area.y + frame.px(2), area.width - frame.px(20), area.height};
  double y = draw_prompt_row(frame, area).y + frame.px(2);
  if (area.height > frame.px(210)) {
    for (const bool is_clean : {true, false}) {
      draw_strip(frame, view.pair, is_clean, {inside.x, y, inside.width, frame.px(chip_line)});
      y += frame.px(chip_line);
    }
    y += frame.px(5);
  }
  const double sentence = y;
  const bool has_sentence = area.height > frame.px(150);
  if (has_sentence) y += 2 * frame.px(sentence_line) + frame.px(4);
  const std::string said = draw_grids(frame, figures, {area.x, y, area.width, area.bottom() - y});
  if (!has_sentence) return;
  const std::string own = grid_sentence(view, figures, shown_grids(frame, figures, area));
  draw_patch_sentence(frame, said.empty() ? own : said, {inside.x, sentence, inside.width, inside.height});
}

/// A chip for each grid; the lit one is drawn alone, and a click on it lets the panel choose again.
double draw_grid_chips(Frame& frame, double right, const Rect& row) {
  const PlotKind& kind = *find_plot_kind("patch");
  const std::vector<Figure>& figures = frame.figures.figures(kind, frame.observation, frame.state.selection);
  for (std::size_t i = figures.size(); i-- > 0;) {
    if (figures[i].title.starts_with("B")) continue;  // of a comparison; "all plots" has them
    const bool is_on = frame.state.figure_of("patch") == static_cast<int>(i);
    const std::string name = figures[i].id.substr(figures[i].id.find('_') + 1);
    right = command_chip(frame, {"show", {{"panel", "patch"}, {"figure", is_on ? -1 : static_cast<std::int64_t>(i)}}},
                         name.c_str(), right, row, name, is_on, figures[i].title);
  }
  return right;
}

double draw_patch_controls(Frame& frame, const Rect& row) {
  const PatchView* view = frame.seen().patch.get();
  if (!view || row.width < frame.px(200)) return row.right();
  const double next = command_chip(frame, {"pair", {{"next", true}}}, "next pair", row.right(), row, "next pair", false,
                                   "Changes another token or another value");
  const auto now = std::ranges::find(all_measures, view->pair.measure) - std::begin(all_measures);
  const AnswerMeasure other = all_measures[static_cast<std::size_t>(now + 1) % std::size(all_measures)];
  const double measure = command_chip(
      frame, {"pair", {{"measure", name_of(other)}}}, "measure", next, row, std::string(name_of(view->pair.measure)),
      true, "How the answer is measured; a click switches to: " + std::string(name_of(other)));
  return row.width < frame.px(420) ? measure : draw_grid_chips(frame, measure, row);
}

void draw_state(const Frame& frame, const StatePart& part, const std::vector<float>& numbers, const Rect& box) {
  const double most = std::max({1e-30, max_magnitude(part.clean), max_magnitude(part.corrupted)});
  std::vector<Color> cells;
  for (const float value : numbers)
    cells.push_back(map_color(*frame.look.theme, ColourMap::diverging, 0.5 + 0.5 * static_cast<double>(value) / most));
  FigureCanvas canvas = frame.look.canvas();
  if (cells.size() == static_cast<std::size_t>(part.rows) * static_cast<std::size_t>(part.columns) && !cells.empty())
    canvas.color_grid(box, part.rows, part.columns, cells);
}

/// One tensor of the state: the clean run's on the left, the corrupted one's on the right.
void draw_state_pair(Frame& frame, const TransplantView& view, const StatePart& part, const Rect& row) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const double label = frame.px(18), gap = frame.px(44);
  const double height = row.height - frame.px(8), most = (row.width - label - gap) / 2;
  const double width = std::min(most, height * 1.6 * std::max(1.0, static_cast<double>(part.columns) / part.rows));
  const double left = row.x + label + (row.width - label - gap - 2 * width) / 2;
  const Rect clean{left, row.y, width, height}, corrupted{left + width + gap, row.y, width, height};
  row_text(frame.look, canvas, {row.x, row.y, label, height}, part.name,
           {body_size, FontFace::semibold, theme.text, Anchor::start});
  draw_state(frame, part, part.clean, clean);
  draw_state(frame, part, part.corrupted, corrupted);
  ImGui::PushID(part.name.c_str());
  const Press from = press_area("from", clean), to = press_area("to", corrupted);
  ImGui::PopID();
  const bool is_in = view.choice.part == part.name || view.choice.part == "all";
  const double y = row.y + height / 2, start = clean.right() + frame.px(6);
  const Point tip = from.held ? mouse_place() : Point{corrupted.x - frame.px(6), y};
  const Color ink = is_in || from.held ? theme.accent : theme.hairline;
  const std::array<Point, 2> shaft{Point{start, y}, tip};
  canvas.polyline(shaft, {ink, frame.px(is_in || from.held ? 2 : 1), Dash::solid});
  if (!from.held) {
    const std::array<Point, 3> head{tip, Point{tip.x - frame.px(7), tip.y - frame.px(4)},
                                    Point{tip.x - frame.px(7), tip.y + frame.px(4)}};
    canvas.polygon(head, ink);
  }
  if (is_in) canvas.stroke_rect(corrupted, frame.px(2), {theme.accent, frame.px(2), Dash::solid});
  if (from.hovered && !from.held)
    hint_box(frame, clean, "Drag " + part.name + " to the right: the corrupted run continues with it");
  if (to.hovered && is_in) hint_box(frame, corrupted, "Click to take it out again");
  const bool is_dropped = from.released && corrupted.contains(mouse_place());
  if (is_dropped || from.clicked) frame.commands.send("transplant", {{"part", part.name}});
  if (to.clicked && is_in) frame.commands.send("transplant", {{"part", "none"}});
}

void draw_transplant(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const bool is_one = frame.state.figure_of("transplant") >= 0;
  if (figures.empty() || is_one || area.height < frame.px(220)) return draw_figure_grid(frame, panel, figures, area);
  const TransplantView& view = *frame.seen().transplant;
  FigureCanvas canvas = frame.look.canvas();
  const double answers = std::clamp(area.height * 0.34, frame.px(110), frame.px(190)), caption = frame.px(18);
  const Rect states{area.x + frame.px(10), area.y + frame.px(2), area.width - frame.px(20),
                    area.height - answers - caption - frame.px(4)};
  if (view.parts.empty())
    row_text(frame.look, canvas, states, "This layer's memory is not a matrix.",
             {small_size, FontFace::regular, frame.look.theme->faint, Anchor::middle});
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    const double height = states.height / static_cast<double>(view.parts.size());
    draw_state_pair(frame, view, view.parts[i],
                    {states.x, states.y + static_cast<double>(i) * height, states.width, height});
  }
  const Rect names{states.x, states.bottom(), states.width, caption};
  const std::string after = area.width > frame.px(420) ? ", after token " + std::to_string(view.token) + ", head " +
                                                             std::to_string(view.shown_head)
                                                       : "";
  const RowText quiet{tiny_size, FontFace::regular, frame.look.theme->dim, Anchor::middle};
  row_text(frame.look, canvas, {names.x, names.y, names.width / 2, caption}, "clean", quiet);
  row_text(frame.look, canvas, {names.x + names.width / 2, names.y, names.width / 2, caption}, "corrupted" + after,
           quiet);
  draw_plot(frame, figures.front(), {area.x, area.bottom() - answers, area.width, answers});
}

int ablation_page(const PageState& state) { return std::max(0, state.figure_of("ablation")); }

/// As many parts as fit with their names; "next group" shows those that follow, and after the last ones the first.
void draw_ablation(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  if (figures.empty()) return draw_figure_grid(frame, panel, figures, area);
  const AblationView& view = *frame.seen().ablation;
  const auto room = static_cast<std::size_t>(std::max(1.0, (area.height - frame.px(56)) / frame.px(17)));
  const std::size_t rows = std::min(room, view.parts.size()), pages = (view.parts.size() + rows - 1) / rows;
  const std::size_t first = static_cast<std::size_t>(ablation_page(frame.state)) % pages * rows;
  draw_plot(frame, ablation_bars(view, figures.front().subtitle, first, rows), area);
}

double draw_ablation_controls(Frame& frame, const Rect& row) {
  const AblationView* view = frame.seen().ablation.get();
  if (!view || view->parts.size() < 2 || row.width < frame.px(150)) return row.right();
  const std::int64_t next = next_ablation_page(frame.state);
  return command_chip(frame, {"show", {{"panel", "ablation"}, {"figure", next}}}, "next parts", row.right(), row,
                      "next group", false, "Shows the next parts, whose removal costs less");
}

double draw_transplant_controls(Frame& frame, const Rect& row) {
  const TransplantView* view = frame.seen().transplant.get();
  if (!view || view->layer < 0 || row.width < frame.px(150)) return row.right();
  double right = row.right();
  for (const auto& [part, hint] : {std::pair{"none", "Puts nothing in"}, {"all", "Puts the layer's whole memory in"}}) {
    right =
        command_chip(frame, {"transplant", {{"part", part}}}, part, right, row, part, view->choice.part == part, hint);
  }
  if (view->heads < 2 || right - row.x < frame.px(80)) return right;
  const int next = view->choice.head + 1 < view->heads ? view->choice.head + 1 : -1;
  const std::string name = view->choice.head < 0 ? "all heads" : "head " + std::to_string(view->choice.head);
  return command_chip(frame, {"transplant", {{"head", next}}}, "head", right, row, name, view->choice.head >= 0,
                      next < 0 ? "Click: all heads" : "Click: head " + std::to_string(next) + " alone");
}

}  // namespace

int next_ablation_page(const PageState& state) {
  constexpr int max_pages = 64;  // highest number of the command `show`
  return (ablation_page(state) + 1) % max_pages;
}

std::vector<PanelDrawing> causes_drawings() {
  return {{"patch", draw_patch, draw_patch_controls},
          {"transplant", draw_transplant, draw_transplant_controls},
          {"ablation", draw_ablation, draw_ablation_controls}};
}

}  // namespace afterglow
