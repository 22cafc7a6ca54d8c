// One short handler for each command of the window.
#include "app/window/window_commands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/solver_view.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "views/formula_cards.h"
#include "views/page/page.h"
#include "views/panel.h"

namespace afterglow {

namespace {

using nlohmann::json;

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

/// The panel that is meant: named, alone on the page, or under the mouse.
std::string meant_panel(const CommandContext& context, const json& value) {
  std::string panel = word(value, "panel", "");
  if (panel.empty()) panel = !context.page.maximised.empty() ? context.page.maximised : context.page.hovered_panel;
  if (!panel.empty() && !find_panel(panel)) throw Error(ExitCode::bad_input, "there is no panel \"" + panel + "\"");
  return panel;
}

/// Plots that are meant: one by name, all of a named panel, the one under the mouse; otherwise none.
std::vector<const Figure*> meant_plots(CommandContext& context, const json& value) {
  const std::string name = word(value, "plot", word(value, "panel", "").empty() ? context.page.hovered_plot : "");
  const std::string panel = word(value, "panel", "");
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

void select(CommandContext& context, const json& value) {
  Selection& s = context.page.selection;
  const Selection before = s;
  constexpr std::int64_t most = 1 << 20;
  s.layer = static_cast<int>(integer(value, "layer", s.layer, -1, most));
  s.head = static_cast<int>(integer(value, "head", s.head, 0, most));
  s.mode = static_cast<int>(integer(value, "mode", s.mode, -1, most));
  s.token = static_cast<int>(integer(value, "token", s.token, -1, most));
  s.power = static_cast<int>(integer(value, "power", s.power, -1, 64));
  s.all_heads = truth(value, "all_heads", s.all_heads);
  s.scaled = truth(value, "scaled", s.scaled);
  s.change = truth(value, "change", s.change);
  if (value.contains("arithmetic")) {
    const std::string name =
        get_choice(value, "arithmetic", {"run", "bf16", "tf32", "fp32", "fp64"}, "run", "the command's value");
    s.arithmetic = -1;
    for (std::size_t i = 0; i < all_arithmetics.size(); ++i) {
      if (name == name_of(all_arithmetics[i])) s.arithmetic = static_cast<int>(i);
    }
  }
  s.band = truth(value, "band", s.band);
  s.smoothing = number(value, "smoothing", s.smoothing, 0, 0.9999);
  if (s.layer != before.layer || s.head != before.head)
    context.engine.send("theory", {{"layer", std::int64_t{s.layer}}, {"head", std::int64_t{s.head}}});
}

void move_token(CommandContext& context, std::int64_t by) {
  const int last = context.observation->trace ? static_cast<int>(context.observation->trace->steps.size()) - 1 : -1;
  if (last < 0) return;
  const int now = selected_token(*context.observation, context.page.selection);
  context.page.selection.token = static_cast<int>(std::clamp<std::int64_t>(now + by, 0, last));
  context.page.time_focus = TimeFocus::tokens;
}

void token(CommandContext& context, const json& value) {
  constexpr std::int64_t most = 1 << 24;
  const int now = selected_token(*context.observation, context.page.selection);
  move_token(context, integer(value, "to", now, 0, most) - now + integer(value, "by", 0, -most, most));
}

bool moves_tokens(const CommandContext& context) {
  if (!context.observation->trace) return false;
  return context.page.time_focus == TimeFocus::tokens || context.page.maximised == "stepper" ||
         context.page.hovered_panel == "stepper";
}

void time_left(CommandContext& context, const json& value) {
  const std::int64_t count = integer(value, "count", 1, 1, 1'000'000'000);
  if (moves_tokens(context)) return move_token(context, -count);
  context.engine.send("rewind", {{"step", std::max<std::int64_t>(0, context.observation->step - count)}});
}

void time_right(CommandContext& context, const json& value) {
  const std::int64_t count = integer(value, "count", 1, 1, 1'000'000'000);
  if (moves_tokens(context)) return move_token(context, count);
  context.engine.send("step", {{"count", count}});
}

void time_home(CommandContext& context, const json&) {
  if (moves_tokens(context)) return move_token(context, -(1 << 24));
  context.engine.send("rewind", {{"step", std::int64_t{0}}});
}

void time_end(CommandContext& context, const json&) {
  if (moves_tokens(context)) {
    context.page.selection.token = -1;
    return;
  }
  for (auto& [name, plot] : context.page.plots) plot.fit();
  std::int64_t newest = context.observation->step;
  for (const RunCurves& run : context.observation->runs) {
    newest = std::max(newest, run.first_step - 1 + static_cast<std::int64_t>(run.loss.size));
  }
  if (newest > context.observation->step) context.engine.send("run_to", {{"step", newest}});
}

void maximise(CommandContext& context, const json& value) {
  std::string panel = meant_panel(context, value);
  if (value.contains("number")) {
    panel =
        panels()[static_cast<std::size_t>(integer(value, "number", 1, 1, static_cast<std::int64_t>(panels().size()))) -
                 1]
            .kind->id;
  }
  context.page.maximised = context.page.maximised == panel ? "" : panel;
}

void race(CommandContext& context, const json& value) {
  if (!value.empty()) context.engine.send({"influence", json{{"race", value}}.dump()});
  const bool is_on = context.page.maximised == "race" && value.empty();
  context.page.workspace = "influence";
  context.page.maximised = is_on ? "" : "race";
}

void present(CommandContext& context, const json& value);

/// One thing at a time: what lies on top closes first, then the enlarged panel, then the selection.
void restore(CommandContext& context, const json&) {
  PageState& page = context.page;
  const bool has_cursors =
      std::any_of(page.plots.begin(), page.plots.end(), [](const auto& p) { return p.second.mark_a.has_value(); });
  if (page.palette.is_open || page.help_is_open) {
    page.palette = {};
    page.help_is_open = false;
  } else if (!page.card.pinned.empty()) {
    page.card.pinned.clear();
  } else if (!page.maximised.empty()) {
    page.maximised.clear();
  } else if (page.presenting) {
    present(context, {{"on", false}});
  } else if (!page.focused_panel.empty()) {
    page.focused_panel.clear();
  } else if (has_cursors) {
    for (auto& [name, plot] : page.plots) plot.mark_a = plot.mark_b = std::nullopt;
  } else if (!page.notes.empty()) {
    page.notes.clear();
  } else {
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
  for (const Figure* figure : meant_plots(context, value)) {
    PlotState& plot = context.page.plots[figure->id];
    const Scale now = axis == 'x' ? plot.x_scale.value_or(figure->x.scale) : plot.y_scale.value_or(figure->y.scale);
    set_scale(plot, axis,
              wanted == "linear"   ? Scale::linear
              : wanted == "log"    ? Scale::log
              : wanted == "symlog" ? Scale::symlog
                                   : next_scale(now));
  }
}

void cursor(CommandContext& context, const json& value) {
  const double at = number(value, "at", context.page.crosshair.x, -1e300, 1e300);
  for (const Figure* figure : meant_plots(context, value)) {
    if (value.contains("at") || context.page.crosshair.plot == figure->id)
      place_cursor(context.page.plots[figure->id], at);
  }
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
  if (std::none_of(list.begin(), list.end(), [&](const Workspace& w) { return w.id == name; })) {
    throw Error(ExitCode::bad_input, "there is no workspace \"" + name + "\"");
  }
  context.page.workspace = name;
  context.page.maximised.clear();
}

void theme(CommandContext& context, const json& value) {
  static const std::vector<std::string> names{"dark", "light", "projector"};
  const auto now = std::find(names.begin(), names.end(), context.page.theme);
  const std::string next = now == names.end() || now + 1 == names.end() ? names.front() : *(now + 1);
  context.page.theme = get_choice(value, "name", names, next, "the command's value");
}

void zoom(CommandContext& context, const json& value) {
  const double wanted = number(value, "to", context.page.zoom * number(value, "factor", 1, 0.1, 10), 0, 100);
  context.page.zoom = std::clamp(wanted, 0.5, 3.0);
}

void open_palette(CommandContext& context, const json&) {
  const bool was_open = context.page.palette.is_open;
  context.page.palette = {};
  context.page.palette.is_open = context.page.palette.wants_focus = !was_open;
  context.page.help_is_open = false;
}

/// F1 over a quantity keeps its card; over nothing it shows the keys.
void help(CommandContext& context, const json&) {
  CardState& card = context.page.card;
  if (!card.pinned.empty()) {
    card.pinned.clear();
  } else if (!context.page.help_is_open && find_card(card.card)) {
    card.pinned = card.card;
  } else {
    context.page.help_is_open = !context.page.help_is_open;
  }
}

void copy(CommandContext& context, const json& value) { run_copy(context, {"copy", value.dump()}); }

/// Training runs forward at its own speed; everything else moves by steps that double with each press.
void shuttle(CommandContext& context, const json& value) {
  constexpr int fastest = 64;
  int& speed = context.page.shuttle;
  const auto direction = static_cast<int>(integer(value, "direction", 0, -1, 1));
  speed = direction == 0 ? 0 : direction * speed > 0 ? std::clamp(2 * speed, -fastest, fastest) : direction;
  const bool is_of_tokens = moves_tokens(context);
  if (speed < 0) return time_left(context, {{"count", -speed}});
  if (speed > 0 && is_of_tokens) return time_right(context, {{"count", speed}});
  context.engine.send(speed > 0 ? "run" : "pause");
}

void present(CommandContext& context, const json& value) {
  PageState& page = context.page;
  const bool on = truth(value, "on", !page.presenting);
  if (on == page.presenting) return;
  page.presenting = on;
  if (on) page.theme_before = page.theme;
  page.theme = on ? "projector" : page.theme_before;
}

void focus(CommandContext& context, const json& value) {
  PageState& page = context.page;
  std::vector<std::string> shown;
  for (const Workspace& workspace : workspaces()) {
    if (workspace.id != page.workspace) continue;
    for (const WorkspaceRow& row : workspace.rows) {
      for (const auto& [id, share] : row.panels) shown.emplace_back(id);
    }
  }
  if (shown.empty()) return;
  const auto size = static_cast<std::int64_t>(shown.size()), by = integer(value, "by", 1, -size, size);
  const std::int64_t now = std::find(shown.begin(), shown.end(), page.focused_panel) - shown.begin();
  const std::int64_t next = now < size ? now + by : by > 0 ? 0 : -1;
  page.focused_panel = shown[static_cast<std::size_t>(((next % size) + size) % size)];
  if (!page.maximised.empty()) page.maximised = page.focused_panel;
}
void full_screen(CommandContext& context, const json&) { context.actions.toggle_full_screen(); }
void screenshot(CommandContext& context, const json& value) {
  context.actions.save_picture(word(value, "path", "window.png"));
}
void quit(CommandContext& context, const json&) { context.actions.close(); }
void export_figures(CommandContext& context, const json& value) { run_export(context, {"export", value.dump()}); }

struct Handler {
  std::string_view name;
  void (*run)(CommandContext&, const json&);
};

constexpr std::array handlers{
    Handler{"select", select},
    Handler{"token", token},
    Handler{"time_left", time_left},
    Handler{"time_right", time_right},
    Handler{"time_home", time_home},
    Handler{"time_end", time_end},
    Handler{"export", export_figures},
    Handler{"maximise", maximise},
    Handler{"race", race},
    Handler{"restore", restore},
    Handler{"fit", fit},
    Handler{"axis_scale", axis_scale},
    Handler{"cursor", cursor},
    Handler{"show", show},
    Handler{"workspace", workspace},
    Handler{"theme", theme},
    Handler{"zoom", zoom},
    Handler{"palette", open_palette},
    Handler{"help", help},
    Handler{"copy", copy},
    Handler{"shuttle", shuttle},
    Handler{"present", present},
    Handler{"focus", focus},
    Handler{"fullscreen", full_screen},
    Handler{"screenshot", screenshot},
    Handler{"quit", quit},
};

}  // namespace

std::vector<std::string_view> handled_window_commands() {
  std::vector<std::string_view> names;
  for (const Handler& handler : handlers) names.push_back(handler.name);
  return names;
}

void run_window_command(CommandContext& context, const Command& command) {
  try {
    const json value = parse_json(command.value, "the value of \"" + command.name + "\"");
    if (!value.is_object())
      throw Error(ExitCode::bad_input, "the value of \"" + command.name + "\" has to be an object");
    for (const Handler& handler : handlers) {
      if (handler.name == command.name) handler.run(context, value);
    }
  } catch (const std::exception& problem) {
    add_note(context.page, Severity::warning, command.name + ": " + problem.what(), context.time);
  }
}

}  // namespace afterglow
