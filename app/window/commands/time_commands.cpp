// Commands that move in time: pictures inside one step, tokens, training steps.
#include <algorithm>

#include "app/window/commands/window_commands.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "views/panels/panel.h"

namespace afterglow {
namespace {

const char* const the_moment = "the command's value";
constexpr std::int64_t max_count = 1'000'000'000;

void move_token(CommandContext& context, std::int64_t by) {
  const int last = context.observation->trace ? static_cast<int>(context.observation->trace->steps.size()) - 1 : -1;
  if (last < 0) return;
  const int now = selected_token(*context.observation, context.page.selection);
  context.page.selection.token = static_cast<int>(std::clamp<std::int64_t>(now + by, 0, last));
  context.page.time.focus = TimeFocus::tokens;
}

bool moves_tokens(const CommandContext& context) {
  if (!context.observation->trace) return false;
  const auto moves = [](const std::string& panel) {
    const PlotKind* kind = find_plot_kind(panel);
    return kind && kind->moves_tokens;
  };
  return context.page.time.focus == TimeFocus::tokens || moves(context.page.maximised) ||
         moves(context.page.pointer.panel);
}

/// Pictures inside one step, if the page shows them: the panel, and their number. After the last one of a token comes
/// the first one of the next.
struct Pictures {
  std::string panel;
  int count = 0;
};
Pictures visible_pictures(CommandContext& context) {
  const PageState& page = context.page;
  const Panel* panel = find_panel(page.maximised.empty() ? page.pointer.panel : page.maximised);
  if (!panel || !panel->kind->steps_figures) return {};
  const auto& figures = context.figures.figures(*panel->kind, context.observation, page.selection);
  return {std::string(panel->kind->id), static_cast<int>(figures.size())};
}

/// Moves to the neighbouring token that has pictures; false if neither has any.
bool move_pictured_token(CommandContext& context, int by) {
  const int wanted = selected_token(*context.observation, context.page.selection) + by;
  const Trace& trace = *context.observation->trace;
  if (wanted < 0 || wanted >= static_cast<int>(trace.steps.size())) return false;
  if (trace.steps[static_cast<std::size_t>(wanted)].pictures.empty()) return false;
  move_token(context, by);
  return true;
}

int shown_picture(const PageState& page, const Pictures& pictures) {
  const auto shown = page.shown_figure.find(pictures.panel);
  return shown == page.shown_figure.end() || shown->second >= pictures.count ? -1 : shown->second;
}

void move_picture(CommandContext& context, const Pictures& pictures, std::int64_t by) {
  // The view of all pictures counts as before the first one, or after the last one.
  const int shown = shown_picture(context.page, pictures);
  std::int64_t place = (shown >= 0 ? shown : by > 0 ? -1 : pictures.count) + by;
  while (place >= pictures.count && move_pictured_token(context, 1)) place -= pictures.count;
  while (place < 0 && move_pictured_token(context, -1)) place += pictures.count;
  context.page.shown_figure[pictures.panel] = static_cast<int>(std::clamp<std::int64_t>(place, 0, pictures.count - 1));
}

std::int64_t count_of(const json& value) { return get_integer(value, "count", 1, 1, max_count, the_moment); }

/// Moves between the pictures of a step or between tokens; false where the page shows training steps.
bool moves_inside(CommandContext& context, std::int64_t by) {
  const Pictures pictures = visible_pictures(context);
  const bool is_of_tokens = pictures.count == 0 && moves_tokens(context);
  if (pictures.count > 0) move_picture(context, pictures, by);
  if (is_of_tokens) move_token(context, by);
  return pictures.count > 0 || is_of_tokens;
}

}  // namespace

bool leave_picture(CommandContext& context) {
  const Pictures pictures = visible_pictures(context);
  if (shown_picture(context.page, pictures) < 0) return false;
  context.page.shown_figure.erase(pictures.panel);
  return true;
}

void go_to_token(CommandContext& context, const json& value) {
  constexpr std::int64_t most = 1 << 24;
  const int now = selected_token(*context.observation, context.page.selection);
  move_token(context, get_integer(value, "to", now, 0, most, the_moment) - now +
                          get_integer(value, "by", 0, -most, most, the_moment));
}

void go_left(CommandContext& context, const json& value) {
  const std::int64_t count = count_of(value);
  // The engine counts the steps, because keys may come faster than observations.
  if (!moves_inside(context, -count)) context.engine.send("rewind", {{"by", count}});
}

void go_right(CommandContext& context, const json& value) {
  const std::int64_t count = count_of(value);
  if (!moves_inside(context, count)) context.engine.send("step", {{"count", count}});
}

void go_home(CommandContext& context, const json&) {
  if (const Pictures pictures = visible_pictures(context); pictures.count > 0)
    return void(context.page.shown_figure[pictures.panel] = 0);
  if (moves_tokens(context)) return move_token(context, -(1 << 24));
  context.engine.send("rewind", {{"step", context.observation->oldest_step}});
}

void go_to_end(CommandContext& context, const json&) {
  if (const Pictures pictures = visible_pictures(context); pictures.count > 0)
    return void(context.page.shown_figure[pictures.panel] = pictures.count - 1);
  if (moves_tokens(context)) return void(context.page.selection.token = -1);
  for (auto& [name, plot] : context.page.plots) plot.fit();
  const Observation& now = *context.observation;
  if (now.latest_step > now.step) context.engine.send("run_to", {{"step", now.latest_step}});
}

/// Training runs forward, each press at the next higher speed; all other times move by steps that double.
void play(CommandContext& context, const json& value) {
  constexpr int fastest = 64;
  int& speed = context.page.time.shuttle;
  const auto direction = static_cast<int>(get_integer(value, "direction", 0, -1, 1, the_moment));
  speed = direction == 0 ? 0 : direction * speed > 0 ? std::clamp(2 * speed, -fastest, fastest) : direction;
  const bool is_of_tokens = moves_tokens(context);
  if (speed < 0) return go_left(context, {{"count", -speed}});
  if (speed > 0 && is_of_tokens) return go_right(context, {{"count", speed}});
  if (speed > 1) context.engine.send("speed", {{"by", 1}});
  context.engine.send(speed > 0 ? "run" : "pause");
}

}  // namespace afterglow
