// The menu of a panel: each line is a command with its key.
#include <algorithm>

#include "core/engine/observation/causes_view.h"
#include "core/figure/readout.h"
#include "core/io/json.h"
#include "core/io/number_text.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

MenuItem item(std::string title, std::string keys, const char* command, const json& value, bool is_on = false) {
  return {std::move(title), std::move(keys), {command, value}, is_on};
}

void add_scale(std::vector<MenuItem>& items, const json& target, const char* axis, Scale now) {
  json value = target;
  value["axis"] = axis;
  value["scale"] = now == Scale::log ? "linear" : "log";
  const bool is_x = axis[0] == 'x';
  items.push_back(
      item(is_x ? "Log x axis" : "Log y axis", is_x ? "Shift+X" : "Shift+Y", "axis_scale", value, now == Scale::log));
}

/// Lines for axes and cursors, if the panel shows plots.
void add_plot_items(Frame& frame, const MenuState& menu, const ShownPlot& plot, std::vector<MenuItem>& items) {
  const json target = menu.plot.empty() ? json{{"panel", menu.panel}} : json{{"plot", menu.plot}};
  add_scale(items, target, "x", plot.x_scale);
  add_scale(items, target, "y", plot.y_scale);
  items.push_back(item("Fit the axes", "F", "fit", target));
  if (plot.colours) {
    const bool are_locked = frame.state.plots[plot.plot].colours.has_value();
    items.push_back(item("Lock the colours", "", "colours", {{"plot", plot.plot}, {"on", !are_locked}}, are_locked));
  }
  const bool follows = frame.state.plots[plot.plot].follows();
  json follow = target;
  follow["on"] = !follows;
  items.push_back(item("Follow new data", "", "follow", follow, follows));
  if (!menu.plot.empty() && menu.x && plot.has_lines)
    items.push_back(item("Set a measuring cursor here", "C", "cursor", {{"plot", menu.plot}, {"at", *menu.x}}));
}

void add_curves(Frame& frame, const Figure& figure, std::vector<MenuItem>& items) {
  constexpr std::size_t max_curves = 8;
  std::vector<std::string> names;
  for (const Series& series : figure.series) {
    const auto* line = std::get_if<Line>(&series);
    const std::string name(stem_of(series_name(series)));
    if (!name.empty() && !(line && line->is_quiet)) names.push_back(name);
  }
  if (names.size() < 2 || names.size() > max_curves) return;
  for (const std::string& name : names) {
    const bool is_hidden = frame.state.plots[figure.id].hidden.count(name) > 0;
    items.push_back(
        item("Show " + name, "", "hide", {{"plot", figure.id}, {"series", name}, {"on", !is_hidden}}, !is_hidden));
  }
}

/// One line for each of the newest earlier runs, and one for the present run.
void add_runs(const Observation& o, std::vector<MenuItem>& items) {
  constexpr std::size_t most = 4;
  for (std::size_t r = o.runs.size(), shown = 0; r-- > 0 && shown < most; ++shown) {
    const bool is_present = r + 1 == o.runs.size();
    items.push_back(item("Throw " + (is_present ? "this run" : o.runs[r].run) + " away", "", "discard",
                         is_present ? json::object() : json{{"run", o.runs[r].run}}));
  }
}

/// Follows the number that the plot shows at the click over all kept steps.
void add_followed(Frame& frame, const MenuState& menu, const PlotKind& kind, const Figure& figure,
                  std::vector<MenuItem>& items) {
  if (!kind.followed) return;
  const auto at = menu.x && menu.y ? std::optional(Point{*menu.x, *menu.y}) : std::nullopt;
  const std::string number = kind.followed(frame.seen(), frame.state.selection, figure, at);
  if (number.empty()) return;
  items.push_back(item("Follow " + number + " over training", "", "over_training", {{"number", number}}));
  items.back().page = "why";
}

/// Other pairs of sequences, and the resolution of the grid.
void add_pair(const Observation& o, std::vector<MenuItem>& items) {
  const auto is_of_head = [](const PatchRow& row) { return row.head >= 0; };
  const bool by_heads = o.patch && std::ranges::any_of(o.patch->rows, is_of_head);
  items.push_back(item("Show a row for each head", "", "pair", {{"heads", !by_heads}}, by_heads));
  items.push_back(item("Load a pair from a file…", "", "palette", {{"text", "pair path="}}));
}

std::vector<MenuItem> menu_items(Frame& frame, const MenuState& menu) {
  std::vector<MenuItem> items;
  const Panel* panel = find_panel(menu.panel);
  if (!panel) return items;
  const ShownPlot* plot = nullptr;
  for (const ShownPlot& shown : frame.state.drawn.plots) {
    if (shown.panel == menu.panel && (menu.plot.empty() ? !plot : shown.plot == menu.plot)) plot = &shown;
  }
  items.push_back(item("Copy as command", "Ctrl+Shift+C", "copy", {{"what", "command"}, {"panel", menu.panel}}));
  if (plot) {
    items.push_back(item("Copy picture", "Ctrl+C", "copy", {{"what", "picture"}, {"plot", plot->plot}}));
    items.push_back(item("Export this plot", "Ctrl+E", "export", {{"plot", plot->plot}}));
    items.push_back(
        item("Export its numbers", "", "export", {{"plot", plot->plot}, {"formats", json::array({"csv"})}}));
    items.push_back(item("Copy a description", "Ctrl+Alt+C", "copy", {{"what", "words"}, {"plot", plot->plot}}));
    add_plot_items(frame, menu, *plot, items);
    std::string place = "figure=" + plot->plot;
    if (!menu.plot.empty() && menu.x && menu.y)
      place += " x=" + number_text(*menu.x, 6) + " y=" + number_text(*menu.y, 6);
    items.push_back(item("Write a note here…", "W", "palette", {{"text", typed_note({}, 0, place)}}));
  }
  items.push_back(item("Report of the run…", "", "report", json::object()));
  items.push_back(item("Copy the set-up command", "", "copy", {{"what", "setup"}}));
  const std::vector<Figure>& figures = frame.figures.figures(*panel->kind, frame.observation, frame.state.selection);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (plot && figures[i].id == plot->plot) add_followed(frame, menu, *panel->kind, figures[i], items);
    if (figures[i].id != menu.plot) continue;
    add_curves(frame, figures[i], items);
    const bool is_alone = frame.state.figure_of(menu.panel) == static_cast<int>(i);
    if (figures.size() > 1)
      items.push_back(item("Show only this plot", "", "show",
                           {{"panel", menu.panel}, {"figure", is_alone ? -1 : static_cast<int>(i)}}, is_alone));
  }
  if (menu.panel == "training") add_runs(frame.seen(), items);
  if (menu.panel == "patch") add_pair(frame.seen(), items);
  if (menu.panel == "ablation" && frame.seen().ablation)
    items.push_back(
        item("Next group", "", "show", {{"panel", menu.panel}, {"figure", next_ablation_page(frame.state)}}));
  const bool is_large = frame.state.maximised == menu.panel;
  items.push_back(item("Enlarge this panel", "Enter", "maximise", {{"panel", menu.panel}}, is_large));
  items.push_back(item("Next theme", "Ctrl+T", "theme", json::object()));
  items.push_back(item("Save this layout…", "", "palette", {{"text", "layout save=mine"}}));
  for (const auto& [name, layout] : frame.state.layouts)
    items.push_back(item("Layout " + name, "", "layout", {{"choose", name}}));
  items.push_back(item("Reset the layout", "Ctrl+Shift+0", "reset_layout", json::object()));
  return items;
}

void run(PageState& state, CommandQueue& commands, std::size_t line) {
  const MenuItem chosen = state.menu.items[line];
  state.menu = {};
  commands.send(chosen.command);
  if (!chosen.page.empty()) commands.send("workspace", {{"name", chosen.page}});
}

void draw_tick(Canvas& canvas, const Frame& frame, const Rect& row) {
  const double x = row.x + frame.px(9), y = row.y + row.height / 2, s = frame.px(3.5);
  const Point tick[] = {{x, y}, {x + s, y + s}, {x + 2.6 * s, y - s}};
  canvas.polyline(tick, {frame.look.theme->accent, std::max(1.2, frame.px(1.5)), Dash::solid});
}

}  // namespace

void menu_key(PageState& state, CommandQueue& commands, ListKey key) {
  MenuState& menu = state.menu;
  const int last = static_cast<int>(menu.items.size()) - 1;
  if (key == ListKey::up) menu.chosen = menu.chosen <= 0 ? last : menu.chosen - 1;
  if (key == ListKey::down) menu.chosen = menu.chosen >= last ? std::min(0, last) : menu.chosen + 1;
  if (key == ListKey::leave) menu = {};
  if (key == ListKey::accept && menu.chosen >= 0 && menu.chosen <= last)
    run(state, commands, static_cast<std::size_t>(menu.chosen));
}

void draw_menu(Frame& frame) {
  MenuState& menu = frame.state.menu;
  if (!menu.is_open) return;
  menu.items = menu_items(frame, menu);
  const Rect all = window_bounds();
  const Theme& theme = *frame.look.theme;
  FigureCanvas canvas = begin_overlay(frame, "menu");
  const double line = frame.px(26), padding = frame.px(5), tick = frame.px(24), gap = frame.px(20);
  double titles = 0, keys = 0;
  for (const MenuItem& entry : menu.items) {
    titles = std::max(titles, canvas.text_width(entry.title, frame.px(body_size), FontFace::regular));
    keys = std::max(keys, canvas.text_width(entry.keys, frame.px(tiny_size), FontFace::mono));
  }
  const double width = std::min(all.width - frame.px(8), tick + titles + gap + keys + frame.px(22));
  const double height = static_cast<double>(menu.items.size()) * line + 2 * padding;
  const Rect box{std::clamp(menu.at.x, 0.0, std::max(0.0, all.right() - width)),
                 std::clamp(menu.at.y, 0.0, std::max(0.0, all.bottom() - height)), width, height};
  canvas.fill_rect({box.x - 1, box.y + frame.px(2), box.width + 2, box.height}, frame.px(8), faded(theme.ground, 0.5));
  canvas.fill_rect(box, frame.px(8), mixed(theme.raised, theme.panel, 0.4));
  canvas.stroke_rect(box, frame.px(8), {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
  const ImVec2 moved = ImGui::GetIO().MouseDelta;
  int clicked = -1;
  for (std::size_t i = 0; i < menu.items.size(); ++i) {
    const MenuItem& entry = menu.items[i];
    const Rect row{box.x + frame.px(4), box.y + padding + static_cast<double>(i) * line, width - frame.px(8), line};
    const Press press = press_area(entry.title.c_str(), row);
    if (press.hovered && (moved.x != 0 || moved.y != 0)) menu.chosen = static_cast<int>(i);
    if (press.clicked) clicked = static_cast<int>(i);
    if (static_cast<int>(i) == menu.chosen) canvas.fill_rect(row, frame.px(5), mixed(theme.raised, theme.accent, 0.18));
    if (entry.is_on) draw_tick(canvas, frame, row);
    const Rect inside{row.x + tick, row.y, row.width - tick - frame.px(10), row.height};
    row_text(frame.look, canvas, inside, entry.title, {body_size, FontFace::regular, theme.text, Anchor::start});
    row_text(frame.look, canvas, inside, entry.keys, {tiny_size, FontFace::mono, theme.faint, Anchor::end});
  }
  if (clicked >= 0) {
    run(frame.state, frame.commands, static_cast<std::size_t>(clicked));
  } else if ((ImGui::IsMouseClicked(0) || ImGui::IsMouseClicked(1)) && !box.contains(mouse_place())) {
    menu = {};
  }
  ImGui::End();
}

}  // namespace afterglow
