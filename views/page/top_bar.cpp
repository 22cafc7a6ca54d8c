// Name of the program, pages, and buttons for the run.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/widgets/text_field.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

void draw_wordmark(const Frame& frame, const Rect& row) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const double first = row_text(frame.look, canvas, row, "after", {15, FontFace::semibold, theme.text, Anchor::start});
  row_text(frame.look, canvas, {row.x + first, row.y, row.width, row.height}, "glow",
           {15, FontFace::semibold, theme.accent, Anchor::start});
}

constexpr double tab_row = 48, bar_height = 52, bare_height = 44, bar_margin = 14, mark_room = 96, wide_bar = 1592,
                 wide_buttons = 550, narrow_buttons = 352;

/// In a narrow window the tabs need the room; keys and commands do what the speed and the field for steps do.
bool is_wide(const Frame& frame, double width) { return width >= frame.px(wide_bar); }

struct TabPlaces {
  std::vector<Rect> tabs;  ///< of each workspace
  double height = 0;       ///< of the whole bar
};

/// Every tab has its place in a fixed order, whichever is chosen. A group that does not fit into the first row, between
/// name and buttons, begins a further one.
TabPlaces tab_places(const Frame& frame, double width) {
  const FigureCanvas canvas(*ImGui::GetForegroundDrawList(), *frame.look.fonts);  // the frame has no window yet
  const std::span<const Workspace> all = workspaces();
  const double padding = frame.px(is_wide(frame, width) ? 9 : 6), gap = frame.px(is_wide(frame, width) ? 16 : 7);
  const auto tab_width = [&](const Workspace& page) {
    return std::ceil(canvas.text_width(page.title, frame.px(body_size), FontFace::semibold) + 2 * padding);
  };
  double x = frame.px(mark_room), y = 0, end = width - frame.px(is_wide(frame, width) ? wide_buttons : narrow_buttons);
  TabPlaces places;
  for (std::size_t first = 0; first < all.size();) {
    std::size_t last = first;
    double group = 0;
    while (last < all.size() && all[last].group == all[first].group) group += tab_width(all[last++]);
    if (x + group > end && x > frame.px(bar_margin)) {
      y += frame.px(tab_row);
      x = frame.px(bar_margin);
      end = width - x;
    }
    for (; first < last; x += tab_width(all[first++]))
      places.tabs.push_back({x, y + frame.px(20), tab_width(all[first]), frame.px(27)});
    x += gap;
  }
  places.height = y + frame.px(bar_height);
  return places;
}

/// A page that has nothing to show of the model is dim and stays.
void draw_tab(const Frame& frame, const Workspace& page, const Rect& box, bool is_present, const std::string& why) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const Press press = press_area(page.id.data(), box);
  if (is_present || press.hovered) canvas.fill_rect(box, frame.px(5), theme.raised);
  const Color dim = mixed(theme.faint, theme.panel, 0.45);
  row_text(frame.look, canvas, box, page.title,
           {body_size, is_present ? FontFace::semibold : FontFace::regular,
            is_present || press.hovered ? theme.text
            : why.empty()               ? theme.dim
                                        : dim,
            Anchor::middle});
  if (is_present) canvas.fill_rect({box.x, box.bottom() - frame.px(2), box.width, frame.px(2)}, 0, theme.accent);
  if (press.hovered)
    hint_box(frame, box, std::string(page.question) + (why.empty() ? "" : " " + why + " A click shows a preset."));
  if (press.clicked) frame.commands.send("workspace", {{"name", page.id}});
}

/// The name of each group above its pages; a group without a page for the model says so once.
void draw_tabs(const Frame& frame, double width) {
  const std::span<const Workspace> all = workspaces();
  const TabPlaces places = tab_places(frame, width);
  const Theme& theme = *frame.look.theme;
  FigureCanvas canvas = frame.look.canvas();
  for (std::size_t i = 0; i < all.size(); ++i) {
    draw_tab(frame, all[i], places.tabs[i], frame.state.workspace == all[i].id, why_not(all[i], frame.seen().model));
    if (i > 0 && all[i - 1].group == all[i].group) continue;
    const bool is_empty = std::ranges::none_of(all, [&](const Workspace& page) {
      return page.group == all[i].group && why_not(page, frame.seen().model).empty();
    });
    const Color ink = present_workspace(frame.state).group == all[i].group ? theme.accent : theme.faint;
    row_text(frame.look, canvas,
             {places.tabs[i].x + frame.px(6), places.tabs[i].y - frame.px(15), frame.px(220), frame.px(14)},
             std::string(all[i].group) + (is_empty ? ": not of this model" : ""),
             {10, FontFace::semibold, ink, Anchor::start});
  }
}

const char* state_word(const Observation& o) {
  if (o.model.layers.empty() && o.events.empty()) return "Opening";
  if (o.rebuilds_to >= 0) return "Rebuilding";
  if (o.folder) return o.follows ? "Following" : "Follow";
  if (o.running) return "Training";
  return o.stopped_non_finite ? "Stopped" : o.finished ? "Done" : "Paused";
}

/// As wide as its widest text, so that its neighbours do not move. Returns the left edge.
double draw_run_button(Frame& frame, double right, const Rect& row) {
  const Observation& o = frame.seen();
  const bool can_run = o.folder ? !o.follows : !o.finished && !o.stopped_non_finite;
  const bool is_done = o.finished && !o.running && o.step >= o.final_step;
  const char* hint = o.folder    ? "Shows each new checkpoint as soon as it is written  Space"
                     : o.running ? "Pause  Space"
                     : is_done   ? "Done; raise the setting \"steps\" to train on"
                                 : "Run  Space";
  const double x = right - button_width(frame, "Rebuilding", Icon::play);
  const ButtonResult run =
      button(frame, "run", x, row, state_word(o), o.running || o.follows ? Icon::pause : Icon::play,
             can_run ? ButtonKind::primary : ButtonKind::normal, hint);
  if (run.clicked) frame.commands.send("toggle_run");
  return x;
}

/// The speed limit; a click takes the next slower one, and from the slowest no limit. Returns the left edge.
double draw_speed(Frame& frame, double right, const Rect& row) {
  const double limit = frame.seen().speed_limit;
  const std::string label = limit > 0 ? number_text(limit, 3) + "/s" : "max";
  const double x = right - button_width(frame, "100/s", Icon::none);
  const std::string hint = (limit > 0 ? "At most " + number_text(limit, 3) + " steps/s" : "As fast as possible") +
                           std::string("; a click or − makes it slower, + faster");
  if (button(frame, "speed", x, row, label, Icon::none, ButtonKind::normal, hint).clicked) {
    const bool is_slowest = limit > 0 && limit <= 1;
    is_slowest ? frame.commands.send("speed", {{"to", 0}}) : frame.commands.send("speed", {{"by", -1}});
  }
  return x;
}

/// The number in the field; 1 if it is not a number.
std::int64_t step_count(const std::string& text) {
  return std::clamp<std::int64_t>(parse_whole_number(text).value_or(1), 1, 1'000'000'000);
}

/// The field for the number of steps. Returns whether the user pressed Enter.
bool draw_step_field(Frame& frame, const Rect& box) {
  std::string& text = frame.state.time.step_count;
  FigureCanvas canvas = frame.look.canvas();
  canvas.stroke_rect(box, frame.px(6), {frame.look.theme->hairline, std::max(1.0, frame.px(1)), Dash::solid});
  const Rect inside{box.x + frame.px(4), box.y, box.width - frame.px(8), box.height};
  const FieldResult field = text_field(frame.look, "##steps", text, inside, body_size, FontFace::mono, false);
  if (field.entered || field.left) text = std::to_string(step_count(text));
  return field.entered;
}

/// The button that trains some steps, with the field for their number. Returns the left edge.
double draw_step_button(Frame& frame, double right, const Rect& row, bool has_field) {
  const double width = has_field ? frame.px(58) : 0;
  const bool is_entered = has_field && draw_step_field(frame, {right - width, row.y, width, row.height});
  const char* label = has_field ? "Step" : "";
  const double x = right - width - (has_field ? frame.px(2) : 0) - button_width(frame, label, Icon::step);
  const std::int64_t count = has_field ? step_count(frame.state.time.step_count) : 1;
  const std::string hint =
      count == 1 ? std::string("Trains one step, then pauses") + (has_field ? "; the field sets how many" : "") + "  →"
                 : "Trains " + std::to_string(count) + " steps, then pauses";
  const bool is_clicked = button(frame, "step", x, row, label, Icon::step, ButtonKind::normal, hint).clicked;
  if (is_clicked || is_entered) frame.commands.send("step", {{"count", count}});
  return x;
}

}  // namespace

double top_bar_height(const Frame& frame, double width) {
  return std::round(shows_control(frame.state, "workspaces") ? tab_places(frame, width).height : frame.px(bare_height));
}

void draw_top_bar(Frame& frame, const Rect& area) {
  ImGui::PushID("top");
  const double gap = frame.px(10);
  const bool has_tabs = shows_control(frame.state, "workspaces");
  const Rect row{area.x + frame.px(bar_margin), area.y + frame.px(has_tabs ? 12 : 8),
                 area.width - frame.px(2 * bar_margin), frame.px(28)};
  draw_wordmark(frame, row);

  const auto is_shown = [&](std::string_view name) { return shows_control(frame.state, name); };
  double x = row.right() + gap;
  if (is_shown("palette"))
    x = command_button(frame, x - gap, row, {"palette", {}}, "Commands", Icon::none, ButtonKind::normal,
                       "Finds and runs any command  Ctrl P");
  if (is_shown("run")) x = draw_run_button(frame, x - gap, row);
  const bool wide = is_wide(frame, area.width);
  if (wide && is_shown("speed")) x = draw_speed(frame, x - gap, row);
  if (is_shown("step")) x = draw_step_button(frame, x - gap, row, wide);
  if (is_shown("restart"))
    command_button(frame, x - gap, row, {"reset", {}}, wide ? "Restart" : "", Icon::again, ButtonKind::normal,
                   "Starts again from step 0 with the same seed  Ctrl R");
  if (has_tabs) draw_tabs(frame, area.width);
  ImGui::PopID();
}

}  // namespace afterglow
