// The inspected sequence as chips that the user can rewrite, and below it the model's answer; state matrices next to
// each other with the answer at the end of the row; the switches of the heads.
#include <algorithm>

#include "core/figure/axis.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/panels/panel.h"
#include "views/widgets/text_field.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr int max_chip_rows = 3;
constexpr double plot_height = 120;  ///< of a plot with axes and title

std::string edit_key(int token) { return "token " + std::to_string(token); }

/// The text field of a chip. Enter writes the token into the sequence; any other key leaves it unchanged.
void draw_token_field(Frame& frame, int token, const Rect& chip) {
  EditState& edit = frame.state.edit;
  const bool wants_focus = std::exchange(edit.wants_focus, false);
  const Rect box{chip.x - frame.px(4), chip.y, chip.width + frame.px(20), chip.height};
  FigureCanvas canvas = frame.look.canvas();
  canvas.fill_rect(box, frame.px(4), frame.look.theme->raised);
  const FieldResult field = text_field(frame.look, "##chip", edit.text, box, small_size, FontFace::mono, wants_focus);
  if (!field.entered && !field.left) return;
  if (field.entered && !edit.text.empty()) frame.commands.send("probe_sequence", {{"at", token}, {"label", edit.text}});
  edit = {};
}

/// The number of hidden tokens on this side; a click shows the answer at the next of them.
void draw_hidden_tokens(Frame& frame, const Rect& chip, int count, int next, bool is_before) {
  ImGui::PushID(is_before ? "before" : "behind");
  const Press press = press_area("hidden", chip);
  ImGui::PopID();
  FigureCanvas canvas = frame.look.canvas();
  const std::string number = std::to_string(count);
  row_text(
      frame.look, canvas, chip, is_before ? "←" + number : number + "→",
      {tiny_size, FontFace::mono, press.hovered ? frame.look.theme->text : frame.look.theme->faint, Anchor::middle});
  if (press.hovered)
    hint_box(frame, chip, number + (is_before ? " earlier tokens" : " later tokens") + ": click to show them");
  if (press.clicked) frame.commands.send("select", {{"token", next}});
}

/// `weight`: in the sums; below 0 without them.
std::string chip_hint(const Frame& frame, const InspectedView& inspected, int token, double weight) {
  const std::string place = "Token " + std::to_string(token) + ": click for the answer here";
  if (frame.state.presentation.is_locked) return place + ".";
  if (weight < 0) return place + ", click again to rewrite it.";
  return place + ", again to rewrite it. Its weight in the sums of " +
         layer_name(frame.seen(), inspected.summed_layer) + " is " + number_text(weight, 2) +
         ": a right click or drag paints it " + (weight > 0 ? "out." : "in.");
}

/// The right button paints tokens, in a drag each one under it: out of the layer's sums where the first was in, else
/// in.
void paint_token(Frame& frame, const InspectedView& inspected, int token, bool is_hovered) {
  BrushState& brush = frame.state.brush;
  const bool is_begun = is_hovered && !frame.state.presentation.is_locked && ImGui::IsMouseClicked(1);
  if (is_begun) brush = {inspected.sum_weights[static_cast<std::size_t>(token)] > 0 ? 0.0 : 1.0, -1};
  const bool is_ended = ImGui::IsMouseReleased(1);
  if (!brush.weight || !(is_hovered || is_ended)) return;
  const auto send = [&](std::int64_t painted, bool is_live) {
    frame.commands.send(
        "mask", {{"layer", inspected.summed_layer}, {"tokens", painted}, {"to", *brush.weight}, {"live", is_live}});
  };
  if (is_hovered && brush.token != token) send(brush.token = token, true);
  if (!is_ended) return;
  send(brush.token, false);  // ends what one undo takes back
  brush = {};
  frame.state.pointer.right_click_is_taken = true;
}

/// Chips in up to three rows around the selected token, in fewer if the plots would lose their axes; returns the height
/// used.
double draw_chips(Frame& frame, const InspectedView& inspected, int asked, const Rect& area) {
  const double pitch = frame.px(frame.seen().model.reads_text ? 58 : 27), height = frame.px(23),
               line = height + frame.px(7);
  const int columns = std::max(1, static_cast<int>(area.width / pitch));
  const int tokens = static_cast<int>(inspected.tokens.size());
  const int room = std::clamp(static_cast<int>((area.height - frame.px(plot_height)) / line), 1, max_chip_rows);
  const int rows = std::clamp((tokens + columns - 1) / columns, 1, room);
  const int most = rows * columns;
  const int first = std::clamp(asked - most / 2, 0, std::max(0, tokens - most));
  FigureCanvas canvas = frame.look.canvas();
  for (int i = 0; i < most && first + i < tokens; ++i) {
    const int token = first + i;
    const Rect chip{area.x + i % columns * pitch, area.y + i / columns * line, pitch - frame.px(3), height};
    const int behind = tokens - first - most;
    if (i == 0 && first > 0) {
      draw_hidden_tokens(frame, chip, first + 1, first, true);
      continue;
    }
    if (i == most - 1 && behind > 0) {
      draw_hidden_tokens(frame, chip, behind + 1, token, false);
      continue;
    }
    if (frame.state.edit.key == edit_key(token)) {
      draw_token_field(frame, token, chip);
      continue;
    }
    ImGui::PushID(token);
    const Press press = press_area("chip", chip);
    ImGui::PopID();
    const bool is_summed = static_cast<std::size_t>(token) < inspected.sum_weights.size();
    const double weight = is_summed ? inspected.sum_weights[static_cast<std::size_t>(token)] : 1;
    draw_token_chip(frame, canvas, inspected.tokens[static_cast<std::size_t>(token)], chip,
                    {token == asked, press.hovered, weight});
    if (is_summed) paint_token(frame, inspected, token, press.hovered);
    if (press.hovered) hint_box(frame, chip, chip_hint(frame, inspected, token, is_summed ? weight : -1));
    if (!press.clicked) continue;
    if (token == asked) {
      if (frame.state.presentation.is_locked) continue;
      frame.state.edit = {edit_key(token), 0, true, true, inspected.tokens[static_cast<std::size_t>(token)].label, -1};
    } else {
      frame.commands.send("select", {{"token", token}});
    }
  }
  return rows * line;
}

void draw_inspection(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& whole) {
  const int asked = asked_token(frame.seen(), frame.state.selection);
  if (asked < 0 || whole.height < frame.px(150)) return draw_figure_grid(frame, panel, figures, whole);
  const Rect area = draw_prompt_row(frame, whole);
  const double top =
      frame.px(6) + draw_chips(frame, *frame.seen().inspected, asked,
                               {area.x + frame.px(10), area.y + frame.px(2), area.width - frame.px(20), area.height});
  draw_figure_grid(frame, panel, figures, {area.x, area.y + top, area.width, area.height - top});
}

double draw_inspection_controls(Frame& frame, const Rect& row) {
  const auto& inspected = frame.seen().inspected;
  if (!inspected || row.width < frame.px(150)) return row.right();
  const auto index = static_cast<std::int64_t>(inspected->setup.index);
  const double next = command_chip(frame, {"probe", {{"index", index + 1}}}, "next", row.right(), row, "new", false,
                                   "Shows the sequence of the next seed");
  const bool is_rewritten = !inspected->setup.tokens.empty();
  const std::string name = "sequence " + std::to_string(index) + (is_rewritten ? ", rewritten" : "");
  const double own =
      command_chip(frame, {"probe", {{"index", is_rewritten ? index : std::int64_t{0}}}}, "own", next, row, name,
                   is_rewritten, is_rewritten ? "Back to the sequence before the changes" : "Back to sequence 0");
  if (!inspected->is_edited()) return own;
  return command_chip(frame, {"clear_overrides", {}}, "edited", own, row, "edited ×", true,
                      "Clears all interventions; Ctrl Z takes back only the last one");
}

void draw_stepper(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& whole) {
  const Rect area = draw_prompt_row(frame, whole);
  const bool is_row = figures.size() > 1 && area.width > frame.px(150) * static_cast<double>(figures.size()) &&
                      area.width > 1.6 * area.height && !frame.state.shown_figure.contains(std::string(panel.kind->id));
  if (!is_row) return draw_figure_grid(frame, panel, figures, area);
  const double gap = frame.px(6), width = (area.width - gap) / static_cast<double>(figures.size());
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const double x = area.x + static_cast<double>(i) * width;
    plot_widget(frame, figures[i], {x, area.y, width - gap, area.height});
  }
}

/// Switches between a scale m that `ska` updates and one that stays as at the chosen token.
double draw_scale_chip(Frame& frame, double right, const Rect& row) {
  const Trace& trace = *frame.seen().trace;
  const int token = selected_token(frame.seen(), frame.state.selection);
  const bool is_kept = trace.scale_kept_behind >= 0;
  return command_chip(
      frame, {"freeze_scale", {{"behind", is_kept ? -1 : token}}}, "scale", right, row, "freeze scale m", is_kept,
      is_kept ? "Lets the scale m grow with the keys again"
              : "Keeps the scale m of token " + std::to_string(token) + " for all later tokens (Echo 3.2.1)");
}

double draw_stepper_controls(Frame& frame, const Rect& row) {
  const auto& trace = frame.seen().trace;
  if (!trace || trace->steps.empty()) return row.right();
  if (row.width < frame.px(110)) return row.right();
  const bool change = frame.state.selection.change;
  const double chip = command_chip(frame, {"select", {{"change", !change}}}, "change", row.right(), row, "show change",
                                   change, "Shows the change since the last token instead of the state");
  const int heads = static_cast<int>(trace->steps.front().heads.size());
  if (row.width < frame.px(250)) return chip;
  const bool has_chip = heads > 0 && (row.width > frame.px(330) || trace->scale_kept_behind >= 0);
  const double left = has_chip ? draw_scale_chip(frame, chip, row) : chip;
  return draw_head_chips(frame, left, row, heads, selected_trace_head(*trace, frame.state.selection));
}

double draw_token_weights_controls(Frame& frame, const Rect& row) {
  const int head = selected_weights_head(frame.seen(), frame.state.selection);
  if (head < 0 || row.width < frame.px(190)) return row.right();
  return draw_head_chips(frame, row.right(), row, frame.seen().token_weights->heads, head);
}

}  // namespace

std::vector<PanelDrawing> sequence_drawings() {
  return {{"probe", draw_inspection, draw_inspection_controls},
          {"stepper", draw_stepper, draw_stepper_controls},
          {"token_weights", draw_figure_grid, draw_token_weights_controls}};
}

}  // namespace afterglow
