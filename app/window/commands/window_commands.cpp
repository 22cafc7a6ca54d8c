// One short handler for each command of the window.
#include "app/window/commands/window_commands.h"

#include <algorithm>
#include <optional>
#include <set>

#include "app/lessons/lesson_runner.h"
#include "app/window/film/film_files.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/session/kept_runs.h"
#include "core/figure/readout.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/widgets/widgets.h"

namespace afterglow {

std::vector<const Figure*> meant_plots(CommandContext& context, const json& value) {
  const std::string panel = get_string(value, "panel", "", "the command's value");
  const std::string name =
      get_string(value, "plot", panel.empty() ? context.page.pointer.plot : "", "the command's value");
  std::vector<const Figure*> found;
  for (const Panel& candidate : panels()) {
    if (!panel.empty() && candidate.kind->id != panel) continue;
    if (panel.empty() && name.empty()) continue;
    for (const Figure& figure : context.figures.figures(*candidate.kind, context.observation, context.page.selection)) {
      if (name.empty() || figure.id == name) found.push_back(&figure);
    }
  }
  return found;
}

namespace {

std::int64_t integer(const json& value, const char* key, std::int64_t fallback, std::int64_t low, std::int64_t high) {
  return get_integer(value, key, fallback, low, high, "the command's value");
}

double number(const json& value, const char* key, double fallback, double low, double high) {
  return get_number(value, key, fallback, low, high, "the command's value");
}

bool truth(const json& value, const char* key, bool fallback) {
  return get_bool(value, key, fallback, "the command's value");
}

std::string word(const json& value, const char* key, const std::string& fallback) {
  return get_string(value, key, fallback, "the command's value");
}

/// The panel that a command addresses: the named one, the enlarged one, or the one under the mouse.
std::string meant_panel(const CommandContext& context, const json& value) {
  std::string panel = word(value, "panel", "");
  if (panel.empty()) panel = !context.page.maximised.empty() ? context.page.maximised : context.page.pointer.panel;
  if (!panel.empty() && !find_panel(panel)) throw BadInput("there is no panel \"" + panel + "\"");
  return panel;
}

/// Their names. A named plot need not exist yet: a lesson sets its axes before it has been measured.
std::vector<std::string> meant_names(CommandContext& context, const json& value) {
  if (value.contains("plot") && !value.contains("panel")) return {word(value, "plot", "")};
  std::vector<std::string> names;
  for (const Figure* figure : meant_plots(context, value)) names.push_back(figure->id);
  return names;
}

void select(CommandContext& context, const json& value) {
  for (Command& command : change_selection(context.page.selection, value)) context.engine.send(std::move(command));
}

void maximise(CommandContext& context, const json& value) {
  // While a question of a lesson is open, the number keys answer it.
  const bool is_answer = value.contains("number") && context.page.lesson.asks;
  if (is_answer) return run_lesson(context, {{"answer", std::min<std::int64_t>(3, integer(value, "number", 1, 1, 9))}});
  std::string panel = meant_panel(context, value);
  const auto count = static_cast<std::int64_t>(panels().size());
  if (value.contains("number"))
    panel = panels()[static_cast<std::size_t>(integer(value, "number", 1, 1, count) - 1)].kind->id;
  context.page.maximised = truth(value, "on", context.page.maximised != panel) ? panel : "";
}

void race(CommandContext& context, const json& value) {
  if (!value.empty()) context.engine.send("influence", {{"race", value}});
  context.page.workspace = "race";
  context.page.maximised.clear();
}

WindowHandler present;

/// Closes one thing at a time: first the topmost sheet, then the enlarged panel, then the selection.
void restore(CommandContext& context, const json&) {
  PageState& page = context.page;
  const bool has_cursors = std::ranges::any_of(page.plots, [](const auto& p) { return p.second.mark_a.has_value(); });
  const auto cleared = [](auto& list) { return !std::exchange(list, {}).empty(); };
  if (std::exchange(page.presentation.is_blank, false)) return;
  if (page.palette.is_open || page.help_is_open || page.menu.is_open || page.picker.is_open) {
    page.palette = {};
    page.picker = {};
    page.help_is_open = false;
    page.menu = {};
    return;
  }
  if (cleared(page.report)) return;
  if (cleared(page.card.pinned) || std::exchange(page.hints.is_drag_due, false)) return;
  if (leave_picture(context) || cleared(page.maximised)) return;
  if (page.presentation.is_on) return present(context, {{"on", false}});
  if (!page.presentation.is_locked && std::exchange(page.presentation.hides_controls, false)) return;
  if (cleared(page.focus.slider)) return;
  if (!page.focus.crosshair.axis.empty()) return void(page.focus.crosshair = {});
  if (cleared(page.focus.panel)) return page.focus.plot.clear();
  if (has_cursors) {
    for (auto& [name, plot] : page.plots) plot.mark_a = plot.mark_b = std::nullopt;
  } else if (!cleared(page.notes)) {
    page.selection = Selection{};
  }
}

void fit(CommandContext& context, const json& value) {
  const std::vector<const Figure*> plots = meant_plots(context, value);
  for (const Figure* figure : plots) context.page.plots[figure->id].fit();
  if (plots.empty()) {
    for (auto& [name, plot] : context.page.plots) plot.fit();
  }
}

void axis_scale(CommandContext& context, const json& value) {
  const char axis = get_choice(value, "axis", {"x", "y"}, "y", "the command's value")[0];
  const std::string wanted =
      get_choice(value, "scale", {"next", "linear", "log", "symlog"}, "next", "the command's value");
  const Scale given = wanted == "log" ? Scale::log : wanted == "symlog" ? Scale::symlog : Scale::linear;
  if (wanted != "next") {
    for (const std::string& name : meant_names(context, value)) set_scale(context.page.plots[name], axis, given);
    return;
  }
  for (const Figure* figure : meant_plots(context, value)) {
    PlotState& plot = context.page.plots[figure->id];
    const Scale now = axis == 'x' ? plot.x_scale.value_or(figure->x.scale) : plot.y_scale.value_or(figure->y.scale);
    set_scale(plot, axis, next_scale(now));
  }
}

void cursor(CommandContext& context, const json& value) {
  const double at = number(value, "at", context.page.crosshair.x, -1e300, 1e300);
  const std::string which = get_choice(value, "which", {"next", "a", "b"}, "next", "the command's value");
  bool is_set = false;
  for (const std::string& name : meant_names(context, value)) {
    if (!value.contains("at") && context.page.crosshair.plot != name) continue;
    PlotState& plot = context.page.plots[name];
    which == "next" ? place_cursor(plot, at) : move_cursor(plot, which[0], at);
    is_set = true;
  }
  if (!is_set) throw BadInput("a measuring cursor needs a place: point the mouse at a curve");
}

/// The plots of `meant_plots` that the last frame drew; without a name the plot with the keyboard focus.
std::vector<const ShownPlot*> meant_shown(CommandContext& context, const json& value) {
  const bool is_named = value.contains("plot") || value.contains("panel");
  std::vector<const ShownPlot*> found;
  if (!is_named) {
    if (const ShownPlot* plot = meant_plot(context.page)) found.push_back(plot);
    return found;
  }
  for (const Figure* figure : meant_plots(context, value)) {
    for (const ShownPlot& shown : context.page.drawn.plots) {
      if (shown.plot == figure->id) found.push_back(&shown);
    }
  }
  return found;
}

void follow(CommandContext& context, const json& value) {
  if (truth(value, "on", true)) {
    for (const Figure* figure : meant_plots(context, value)) context.page.plots[figure->id].fit();
    return;
  }
  for (const ShownPlot* shown : meant_shown(context, value)) {
    context.page.plots[shown->plot].x = shown->x;
    context.page.plots[shown->plot].y = shown->y;
  }
}

/// Locks the colours at the given range, or at the displayed one.
void colours(CommandContext& context, const json& value) {
  const bool has_range = value.contains("low") || value.contains("high");
  constexpr double most = 1e300;
  for (const ShownPlot* shown : meant_shown(context, value)) {
    if (!shown->colours) continue;
    PlotState& plot = context.page.plots[shown->plot];
    if (has_range) {
      const Range range{number(value, "low", shown->colours->low, -most, most),
                        number(value, "high", shown->colours->high, -most, most)};
      if (!(range.low < range.high))
        throw BadInput("the colours of " + shown->plot + ": \"low\" must be less than \"high\"");
      plot.colours = range;
    } else {
      plot.colours = truth(value, "on", !plot.colours) ? shown->colours : std::nullopt;
    }
  }
}

void hide(CommandContext& context, const json& value) {
  const std::string series(stem_of(word(value, "series", "")));
  const bool hides = truth(value, "on", true);
  for (const Figure* figure : meant_plots(context, value)) {
    const bool is_there =
        std::ranges::any_of(figure->series, [&](const Series& s) { return stem_of(series_name(s)) == series; });
    if (!is_there) throw BadInput(figure->id + " has no curve \"" + series + "\"");
    std::set<std::string>& hidden = context.page.plots[figure->id].hidden;
    hides ? void(hidden.insert(series)) : void(hidden.erase(series));
  }
}

/// The visible part of a plot as a canvas of size one by one, so that gestures are shares of it.
FigureGeometry unit_geometry(const ShownPlot& plot) {
  FigureGeometry geometry{.plot = {0, 0, 1, 1}, .x = AxisTransform(plot.x_scale, plot.x, 0, 1)};
  geometry.y = AxisTransform(plot.y_scale, plot.y, 1, 0);
  return geometry;
}

void crosshair(CommandContext& context, const json& value) {
  const ShownPlot* plot = meant_plot(context.page);
  if (!plot || !plot->has_lines) return;
  const AxisTransform axis = unit_geometry(*plot).x;
  const Crosshair& now = context.page.crosshair;
  const bool goes_on = now.axis == plot->x_label;
  const double place = goes_on ? axis.to_canvas(now.x) : 0.5;
  const double moved =
      value.contains("to") ? number(value, "to", 0, 0, 1) : place + 0.01 * number(value, "by", 1, -100, 100);
  context.page.focus.crosshair = {plot->x_label, plot->plot, axis.to_data(std::clamp(moved, 0.0, 1.0))};
  context.page.crosshair = context.page.focus.crosshair;
}

void pan_plot(CommandContext& context, const json& value) {
  const double x = number(value, "x", 0, -10, 10), y = number(value, "y", 0, -10, 10);
  for (const ShownPlot* plot : meant_shown(context, value))
    pan(context.page.plots[plot->plot], unit_geometry(*plot), -x, y);
}

void zoom_plot(CommandContext& context, const json& value) {
  const double factor = number(value, "factor", 0.8, 0.01, 100);
  for (const ShownPlot* plot : meant_shown(context, value)) {
    const FigureGeometry geometry = unit_geometry(*plot);
    Point at{0.5, 0.5};
    if (context.page.crosshair.axis == plot->x_label) at.x = geometry.x.to_canvas(context.page.crosshair.x);
    zoom_at(context.page.plots[plot->plot], geometry, at, factor, {true, true});
  }
}

/// The place `by` further in a cycle of `count`, from `now`; from outside of the cycle its first or last place.
std::int64_t further(std::int64_t now, std::int64_t by, std::int64_t count) {
  if (now < 0 || now >= count) return by > 0 ? 0 : count - 1;
  return ((now + by) % count + count) % count;
}

/// The entry of a list that is "by" further (at most `most`, or the list's length) than `now`.
template <class T>
T further_in(const std::vector<T>& list, const T& now, const json& value, std::int64_t most = 0) {
  const auto size = static_cast<std::int64_t>(list.size()), longest = std::max(size, most);
  const auto place = std::ranges::find(list, now) - list.begin();
  return list[static_cast<std::size_t>(further(place, integer(value, "by", 1, -longest, longest), size))];
}

void focus_plot(CommandContext& context, const json& value) {
  PageState& page = context.page;
  if (page.focus.panel.empty()) page.focus.panel = page.pointer.panel;
  std::vector<std::string> plots;
  for (const ShownPlot& shown : page.drawn.plots) {
    if (page.focus.panel.empty()) page.focus.panel = shown.panel;
    if (shown.panel == page.focus.panel) plots.push_back(shown.plot);
  }
  if (plots.empty()) return;
  const bool is_first = std::ranges::find(plots, page.focus.plot) == plots.end();
  page.focus.plot = further_in(plots, is_first ? plots.front() : page.focus.plot, value);
}

void menu(CommandContext& context, const json& value) {
  PageState& page = context.page;
  MenuState opened;
  opened.plot = word(value, "plot", value.contains("panel") ? "" : page.pointer.plot);
  for (const ShownPlot& shown : page.drawn.plots) {
    if (shown.plot != opened.plot) continue;
    opened.panel = shown.panel;
    opened.at = {shown.area.x + shown.area.width / 3, shown.area.y + shown.area.height / 3};
  }
  if (opened.panel.empty()) opened.panel = meant_panel(context, value);
  if (opened.panel.empty() && !page.drawn.panels.empty()) opened.panel = page.drawn.panels.front().panel;
  if (opened.panel.empty()) return;
  for (const ShownPanel& shown : page.drawn.panels) {
    if (shown.panel == opened.panel && opened.plot.empty())
      opened.at = {shown.area.x + shown.area.width / 3, shown.area.y + shown.area.height / 4};
  }
  if (value.contains("x")) opened.x = number(value, "x", 0, -1e300, 1e300);
  if (value.contains("y")) opened.y = number(value, "y", 0, -1e300, 1e300);
  opened.is_open = true;
  page.menu = std::move(opened);
}

void resize(CommandContext& context, const json& value) {
  resize_panel(context.page, meant_panel(context, value), number(value, "width", 0, -1, 1),
               number(value, "height", 0, -1, 1));
}

void next(CommandContext& context, const json& value) {
  const std::string what = get_choice(value, "what", {"mode", "head", "layer"}, "mode", "the command's value");
  const std::int64_t by = integer(value, "by", 1, -1000, 1000);
  const Selection& s = context.page.selection;
  const HeadSpectrum* head = selected_head(*context.observation, s);
  if (what == "layer") {
    const auto layers = static_cast<std::int64_t>(context.observation->model.layers.size());
    if (layers > 0) select(context, {{"layer", further(s.layer, by, layers)}});
  } else if (what == "head" && head) {
    const int heads = heads_of_layer(*context.observation->spectra, head->layer);
    select(context, {{"head", further(head->head, by, heads)}});
  } else if (mlp_is_selected(*context.observation, s)) {
    const auto pairs = static_cast<std::int64_t>(selected_mlp(*context.observation, s)->eigenvalues.size());
    if (pairs > 0) select(context, {{"mode", further(s.mode, by, pairs)}});
  } else if (head && !head->identity.empty()) {
    select(context, {{"mode", further_in(head->identity, s.mode, value, 1000)}});
  }
}

/// The mode that keys act on: the selected one.
std::optional<MeantMode> mode_of_keys(CommandContext& context) {
  const auto mode = meant_mode(*context.observation, context.page.selection);
  if (!mode) add_note(context.page, Severity::info, "Select a mode first: M selects the next one.", context.time);
  return mode;
}

void switch_mode(CommandContext& context, const json&) {
  if (const auto mode = mode_of_keys(context)) context.engine.send(mode_off(mode->name, !mode->is_off));
}

void nudge_mode(CommandContext& context, const json& value) {
  const auto mode = mode_of_keys(context);
  if (!mode) return;
  const auto moved = [](double from, double by) { return std::clamp(from + by, -4.0, 4.0); };
  context.engine.send(drag_mode(mode->name, {moved(mode->value.real(), number(value, "re", 0, -4, 4)),
                                             moved(mode->value.imag(), number(value, "im", 0, -4, 4))}));
}

void slider(CommandContext& context, const json& value) {
  PageState& page = context.page;
  if (page.drawn.sliders.empty()) return;
  page.focus.slider = further_in(page.drawn.sliders, page.focus.slider, value);
  page.focus.slider_is_sought = true;
}

void nudge(CommandContext& context, const json& value) {
  if (context.page.focus.slider.empty()) slider(context, {{"by", 1}});
  context.page.focus.slider_steps += static_cast<int>(integer(value, "by", 1, -100, 100));
}

void show(CommandContext& context, const json& value) {
  const std::string panel = meant_panel(context, value);
  if (!panel.empty()) context.page.shown_figure[panel] = static_cast<int>(integer(value, "figure", -1, -1, 63));
}

void workspace(CommandContext& context, const json& value) {
  const std::span<const Workspace> list = workspaces();
  std::string name = word(value, "name", "");
  if (name.empty())
    name =
        list[static_cast<std::size_t>(integer(value, "number", 1, 1, static_cast<std::int64_t>(list.size()))) - 1].id;
  if (std::ranges::none_of(list, [&](const Workspace& w) { return w.id == name; }))
    throw BadInput("there is no workspace \"" + name + "\"");
  context.page.workspace = name;
  context.page.opened.workspace_is_chosen = true;
  context.page.maximised.clear();
}

void theme(CommandContext& context, const json& value) {
  static const std::vector<std::string> names{"dark", "light", "projector"};
  context.page.theme =
      get_choice(value, "name", names, further_in(names, context.page.theme, json::object()), "the command's value");
}

void zoom(CommandContext& context, const json& value) {
  const double wanted = number(value, "to", context.page.zoom * number(value, "factor", 1, 0.1, 10), 0, 100);
  context.page.zoom = std::clamp(wanted, 0.5, 3.0);
}

void open_palette(CommandContext& context, const json& value) {
  const std::string text = word(value, "text", "");
  const bool opens = !context.page.palette.is_open || !text.empty();
  context.page.palette = {opens, opens, text, 0, context.page.palette.generation + 1};
  if (text.find('=') != std::string::npos) context.page.palette.selected = first_value(text);
  context.page.picker = {};
  context.page.help_is_open = false;
}

/// F1 over a quantity pins its card; elsewhere it shows the keys.
void help(CommandContext& context, const json&) {
  CardState& card = context.page.card;
  bool& is_open = context.page.help_is_open;
  const auto pins = [&](const std::string& id) {
    if (!is_open && find_card(id)) card.pinned = id;
    return !card.pinned.empty();
  };
  if (!std::exchange(card.pinned, {}).empty() || pins(card.card)) return;
  if (pins(card.asked)) return void(card.beside = card.asked_beside);
  if (!pins(context.page.focus.panel)) is_open = !is_open;
}

void hints(CommandContext& context, const json& value) {
  HintState& due = context.page.hints;
  if (!value.contains("intro")) due.is_drag_due = truth(value, "on", true);
  due.is_intro_due = truth(value, "intro", due.is_drag_due);
}

void present(CommandContext& context, const json& value) {
  PageState& page = context.page;
  const bool on = truth(value, "on", !page.presentation.is_on);
  if (on == page.presentation.is_on) return;
  page.presentation.is_on = on;
  page.presentation.is_blank = false;
  if (on) page.presentation.theme_before = page.theme;
  page.theme = on ? "projector" : page.presentation.theme_before;
}

/// Panels of the last frame in reading order; before the first frame those of the workspace.
std::vector<std::string> focusable_panels(const PageState& page, const ModelSummary& model) {
  std::vector<std::string> panels;
  for (const ShownPanel& shown : page.drawn.panels) panels.push_back(shown.panel);
  if (panels.size() > 1) return panels;
  const std::vector<WorkspaceRow> rows = fitting_rows(present_workspace(page), model);
  if (!rows.empty()) panels.clear();
  for (const WorkspaceRow& row : rows) {
    for (const WorkspacePanel& panel : row.panels) panels.emplace_back(panel.id);
  }
  return panels;
}

void focus(CommandContext& context, const json& value) {
  PageState& page = context.page;
  const std::vector<std::string> panels = focusable_panels(page, context.observation->model);
  if (panels.empty()) return;
  page.focus.panel = further_in(panels, page.focus.panel, value);
  page.focus.plot.clear();
  page.focus.crosshair = {};
  if (!page.maximised.empty()) page.maximised = page.focus.panel;
}
void full_screen(CommandContext& context, const json&) { context.actions.toggle_full_screen(); }
void screenshot(CommandContext& context, const json& value) {
  context.actions.save_picture(word(value, "path", "window.png"));
}
void status(CommandContext& context, const json& value) { context.actions.keep_status(word(value, "path", "")); }
void presenter(CommandContext& context, const json& value) {
  context.page.presentation.has_presenter = truth(value, "on", !context.page.presentation.has_presenter);
}
void film(CommandContext& context, const json& value) {
  context.actions.save_film(film_form_of(word(value, "as", "film")));
}
void go_on(CommandContext& context, const json&) {
  const std::vector<KeptRun> kept = kept_runs(context.actions.kept_folder);
  if (kept.empty()) return add_note(context.page, Severity::info, "No run has been saved yet.", context.time);
  context.engine.send("load", {{"path", kept.front().path.string()}});
}
void against(CommandContext& context, const json& value) { context.actions.compare_with(word(value, "open", "")); }
void swap(CommandContext& context, const json&) { context.actions.swap_runs(); }
void difference(CommandContext& context, const json& value) {
  bool& is_alone = context.page.selection.only_difference;
  is_alone = truth(value, "on", !is_alone);
  if (!context.figures.second())
    add_note(context.page, Severity::info, "There is no second run: the command against opens one.", context.time);
}
void quit(CommandContext& context, const json&) { context.actions.close(); }

/// Scripts of earlier versions use former ids of plots and cards.
void use_present_ids(json& value) {
  for (const char* key : {"panel", "plot", "card"}) {
    if (value.contains(key) && value[key].is_string()) value[key] = present_id(value[key].get<std::string>());
  }
}

struct Handler {
  std::string_view name;
  WindowHandler* run;
};

constexpr Handler handlers[] = {{"select", select},
                                {"token", go_to_token},
                                {"time_left", go_left},
                                {"time_right", go_right},
                                {"time_home", go_home},
                                {"time_end", go_to_end},
                                {"export", run_export},
                                {"report", run_report},
                                {"maximise", maximise},
                                {"race", race},
                                {"restore", restore},
                                {"fit", fit},
                                {"axis_scale", axis_scale},
                                {"cursor", cursor},
                                {"follow", follow},
                                {"hide", hide},
                                {"crosshair", crosshair},
                                {"pan_plot", pan_plot},
                                {"zoom_plot", zoom_plot},
                                {"focus_plot", focus_plot},
                                {"menu", menu},
                                {"resize", resize},
                                {"next", next},
                                {"switch_mode", switch_mode},
                                {"nudge_mode", nudge_mode},
                                {"slider", slider},
                                {"nudge", nudge},
                                {"show", show},
                                {"lesson", run_lesson},
                                {"presenter", presenter},
                                {"status", status},
                                {"view", run_view},
                                {"workspace", workspace},
                                {"theme", theme},
                                {"zoom", zoom},
                                {"palette", open_palette},
                                {"colours", colours},
                                {"help", help},
                                {"hints", hints},
                                {"copy", run_copy},
                                {"shuttle", play},
                                {"present", present},
                                {"focus", focus},
                                {"page", turn_page},
                                {"presets", open_picker},
                                {"layout", change_layout},
                                {"reset_layout", reset_layout},
                                {"controls", show_controls},
                                {"blank", blank_screen},
                                {"fullscreen", full_screen},
                                {"screenshot", screenshot},
                                {"film", film},
                                {"go_on", go_on},
                                {"against", against},
                                {"swap", swap},
                                {"difference", difference},
                                {"quit", quit}};

}  // namespace

std::vector<std::string_view> handled_window_commands() {
  std::vector<std::string_view> names;
  for (const Handler& handler : handlers) names.push_back(handler.name);
  return names;
}

void run_window_command(CommandContext& context, const Command& command) {
  try {
    json value = command.value;
    use_present_ids(value);
    for (const Handler& handler : handlers) {
      if (handler.name == command.name) handler.run(context, value);
    }
  } catch (const std::exception& problem) {
    add_note(context.page, Severity::warning, command.name + ": " + problem.what(), context.time);
  }
}

}  // namespace afterglow
