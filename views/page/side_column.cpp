// The model in training: layers, task, and the settings that can change during the run.
#include <algorithm>

#include "core/engine/observation/run_numbers.h"
#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/figures/semantic_colours.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/widgets/sliders.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

/// The layer of the panels: the selected one, or the first with a spectrum.
int spoken_of(const Frame& frame) {
  if (frame.state.selection.layer >= 0) return frame.state.selection.layer;
  const HeadSpectrum* head = selected_head(frame.seen(), frame.state.selection);
  return head ? head->layer : frame.seen().trace ? frame.seen().trace->layer : -1;
}

double draw_layer(Frame& frame, int index, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const LayerSummary& layer = frame.seen().model.layers[static_cast<std::size_t>(index)];
  const Rect box{area.x, area.y, area.width, frame.px(28)};
  ImGui::PushID(index);
  const Press press = press_area("layer", box);
  ImGui::PopID();
  const bool chosen = index == spoken_of(frame);
  canvas.fill_rect(box, frame.px(5), press.hovered ? mixed(theme.raised, theme.text, 0.05) : theme.raised);
  if (chosen) canvas.stroke_rect(box, frame.px(5), {theme.accent, std::max(1.0, frame.px(1)), Dash::solid});
  canvas.fill_circle({box.x + frame.px(13), box.y + box.height / 2}, frame.px(4),
                     ink_color(theme, layer_ink(layer.kind)));
  const Rect row{box.x + frame.px(25), box.y, box.width - frame.px(33), box.height};
  const double name =
      row_text(frame.look, canvas, row, layer.label, {body_size, FontFace::regular, theme.text, Anchor::start});
  const std::string detail = layer.detail.empty() ? grouped_number(layer.parameters) : layer.detail;
  const Rect rest{row.x + name + frame.px(8), row.y, row.width - name - frame.px(8), row.height};
  if (rest.width > frame.px(24))
    row_text(frame.look, canvas, rest, detail, {small_size, FontFace::regular, theme.faint, Anchor::end});
  if (press.hovered) {
    std::string hint = layer.label + ": " + grouped_number(layer.parameters) + " parameters";
    if (layer.state_bytes > 0) hint += ", " + bytes_text(layer.state_bytes) + " of state for one sequence";
    hint_box(frame, box, hint);
  }
  if (press.clicked) {
    frame.commands.send("select", {{"layer", index}});
    if (layer.state_bytes > 0) frame.commands.send("trace", {{"layer", index}});
  }
  return frame.px(31);
}

/// The model's name, which opens the sheet of presets, and its size.
double draw_model_head(Frame& frame, const Rect& area) {
  const ModelSummary& model = frame.seen().model;
  const Theme& theme = *frame.look.theme;
  double y = area.y + section_head(frame, area, "Model");
  const Rect box{area.x, y, area.width, frame.px(30)};
  const Press press = press_area("model", box);
  FigureCanvas canvas = frame.look.canvas();
  canvas.fill_rect(box, frame.px(5), press.hovered ? mixed(theme.raised, theme.text, 0.05) : theme.raised);
  canvas.stroke_rect(box, frame.px(5), {theme.hairline, std::max(1.0, frame.px(1)), Dash::solid});
  const Rect row{box.x + frame.px(10), box.y, box.width - frame.px(20), box.height};
  const double arrow =
      row_text(frame.look, canvas, row, "▾", {small_size, FontFace::regular, theme.dim, Anchor::end}) + frame.px(6);
  row_text(frame.look, canvas, {row.x, row.y, row.width - arrow, row.height},
           !model.name.empty()           ? model.name
           : frame.seen().events.empty() ? "opening …"
                                         : "choose one",
           {body_size, FontFace::semibold, theme.text, Anchor::start});
  if (press.hovered) hint_box(frame, box, "Opens another preset, table, lesson or file  Ctrl O");
  if (press.clicked) frame.commands.send("presets");
  y += box.height + frame.px(3);
  // The row keeps its height before the model is known, so that nothing below it moves.
  if (model.parameters > 0) {
    row_text(frame.look, canvas, {area.x, y, area.width, frame.px(18)},
             grouped_number(model.parameters) + " parameters",
             {small_size, FontFace::regular, theme.faint, Anchor::start});
  }
  return y + frame.px(24) - area.y;
}

double draw_task(Frame& frame, const Rect& area) {
  const Observation& o = frame.seen();
  const Theme& theme = *frame.look.theme;
  double y = area.y + section_head(frame, area, "Task");
  const auto rest = [&] { return Rect{area.x, y, area.width, area.bottom() - y}; };
  FigureCanvas canvas = frame.look.canvas();
  y = frame.px(3) + text_lines(frame.look, canvas, {area.x, y, area.width, 0},
                               wrapped_text(canvas, o.task, area.width, frame.px(small_size), FontFace::regular, 4),
                               frame.px(18), {small_size, FontFace::regular, theme.dim, Anchor::start});
  // Rows keep their place before their number is known, so that nothing below them moves.
  const RunCurves none, &now = o.runs.empty() ? none : o.runs.back();
  const auto fact = [&](std::string_view label, const Values& of, double value, Color color) {
    y += draw_fact(frame, rest(), label, of.empty() ? "–" : number_text(value, 3), of.empty() ? theme.faint : color,
                   FontFace::mono);
  };
  // A folder of checkpoints may know its batches alone.
  if (o.folder) fact("batch " + o.measures.quality, now.accuracy, mean_of_last(now.accuracy, loss_steps), theme.text);
  fact("held-out " + o.measures.quality, now.held_out_accuracy,
       now.held_out_accuracy.empty() ? 0 : now.held_out_accuracy.back(), theme.text);
  return y - area.y;
}

/// The two runs of a comparison, and the numbers in which they differ.
double draw_comparison(Frame& frame, const Rect& area) {
  const Theme& theme = *frame.look.theme;
  double y = area.y + section_head(frame, area, "Two runs");
  const auto row = [&] { return Rect{area.x, y, area.width, frame.px(23)}; };
  const auto fact = [&](const std::string& label, double a, double b) {
    if (a != b)
      y += draw_fact(frame, row(), label, count_text(a, 3) + " → " + count_text(b, 3), theme.text, FontFace::mono);
  };
  const Observation &a = frame.seen(), &b = *frame.figures.second();
  FigureCanvas canvas = frame.look.canvas();
  for (const Observation* one : {&a, &b}) {
    const Rect square{area.x, y + frame.px(6), frame.px(11), frame.px(11)};
    if (one == &a) canvas.fill_rect(square, frame.px(2), theme.text);
    if (one == &b) canvas.stroke_rect(square, frame.px(2), {theme.text, frame.px(1.5), Dash::solid});
    row_text(frame.look, canvas, {area.x + frame.px(19), y, area.width - frame.px(19), frame.px(23)},
             name_beside(*one, one == &a ? b : a), {body_size, FontFace::semibold, theme.text, Anchor::start});
    y += frame.px(23);
  }
  fact("parameters", static_cast<double>(a.model.parameters), static_cast<double>(b.model.parameters));
  if (!a.runs.empty() && !b.runs.empty() && !a.runs.back().held_out_accuracy.empty() &&
      !b.runs.back().held_out_accuracy.empty())
    fact("held-out " + a.measures.quality, a.runs.back().held_out_accuracy.back(),
         b.runs.back().held_out_accuracy.back());
  for (const Setting& setting : a.settings) {
    const auto same = std::ranges::find(b.settings, setting.key, &Setting::key);
    if (same != b.settings.end()) fact(setting.label, setting.value, same->value);
  }
  double right = area.right();
  const auto chip = [&](const Command& sent, const char* label, const char* hint, bool is_on = false) {
    right = command_chip(frame, sent, label, right, {area.x, y + frame.px(4), area.width, frame.px(26)}, label, is_on,
                         hint) -
            frame.px(4);
  };
  chip({"against", {}}, "Close B", "Shows the first run alone");
  chip({"difference", {}}, "Difference", "Of maps only what differs  D", frame.state.selection.only_difference);
  chip({"swap", {}}, "Swap", "Commands then act on B  V");
  return y + frame.px(34) - area.y;
}

/// The notes of the run with their steps or tokens, of which a click changes one, and what is made of them.
double draw_note_list(Frame& frame, const Rect& area) {
  double y = area.y + section_head(frame, area, "Notes");
  for (std::size_t i = 0; i < frame.seen().notes.size(); ++i) {
    const RunNote& note = frame.seen().notes[i];
    const Rect row{area.x, y, area.width, frame.px(23)};
    ImGui::PushID(static_cast<int>(i));
    const Press press = press_area("note", row);
    ImGui::PopID();
    y += draw_fact(frame, row, note.text, note.token < 0 ? grouped_number(note.step) : note.label,
                   frame.look.theme->text, FontFace::mono);
    if (press.hovered) hint_box(frame, row, note.text);
    if (press.clicked) frame.commands.send("palette", {{"text", typed_note(frame.seen().notes, i + 1)}});
  }
  const Rect row{area.x, y + frame.px(4), area.width, frame.px(26)};
  const std::string step = std::to_string(frame.seen().step);
  const double left =
      command_button(frame, row.right(), row, {"report", {}}, "Report", Icon::none, ButtonKind::normal,
                     "Writes one web page about this run that works offline, with a slider over its steps.");
  command_button(frame, left - frame.px(6), row, {"palette", {{"text", typed_note({}, 0, "step=" + step)}}},
                 "Note here", Icon::none, ButtonKind::normal, "Writes a line of text on this step  W");
  return row.bottom() - area.y;
}

}  // namespace

double draw_fact(const Frame& frame, const Rect& area, std::string_view label, const std::string& value, Color color,
                 FontFace face) {
  FigureCanvas canvas = frame.look.canvas();
  const Rect row{area.x, area.y, area.width, frame.px(23)};
  const double width = row_text(frame.look, canvas, row, value,
                                {face == FontFace::mono ? small_size : body_size, face, color, Anchor::end});
  const double left = row.width - width - frame.px(8);
  if (left > frame.px(20)) {
    row_text(frame.look, canvas, {row.x, row.y, left, row.height}, label,
             {body_size, FontFace::regular, frame.look.theme->dim, Anchor::start});
  }
  return row.height;
}

void draw_side_column(Frame& frame, const Rect& area) {
  const Observation& o = frame.seen();
  ImGui::SetCursorScreenPos({static_cast<float>(area.x), static_cast<float>(area.y)});
  ImGui::BeginChild("side", {static_cast<float>(area.width), static_cast<float>(area.height)}, false,
                    ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoScrollWithMouse);
  const double margin = frame.px(14), scrolled = static_cast<double>(ImGui::GetScrollY());
  const double width = area.width - 2 * margin;
  double y = area.y + frame.px(12) - scrolled;
  const auto rest = [&] { return Rect{area.x + margin, y, width, 1e6}; };

  const bool has_layers = shows_control(frame.state, "layers"), has_sliders = shows_control(frame.state, "sliders");
  if (frame.figures.second()) y += draw_comparison(frame, rest()) + frame.px(14);
  if (has_layers) {
    y += draw_model_head(frame, rest());
    for (int i = 0; i < static_cast<int>(o.model.layers.size()); ++i) y += draw_layer(frame, i, rest());
    y += frame.px(14);
  }
  if (!o.notes.empty() || (has_layers && !o.model.layers.empty())) y += draw_note_list(frame, rest()) + frame.px(14);
  if (!o.task.empty() || !o.runs.empty()) y += draw_task(frame, rest()) + frame.px(14);
  if (const double used = has_sliders ? draw_interference(frame, spoken_of(frame), rest()) : 0; used > 0)
    y += used + frame.px(14);
  const auto is_shown = [&](const Setting& one) { return has_sliders || shows_control(frame.state, one.key); };
  if (std::ranges::any_of(o.settings, is_shown))
    y += section_head(frame, rest(), has_sliders ? "Training" : "In this lesson");
  for (const Setting& setting : o.settings) {
    if (is_shown(setting)) y += setting_slider(frame, setting, rest());
  }
  // Reports the length of the column to Dear ImGui, so that it can scroll.
  ImGui::SetCursorScreenPos({static_cast<float>(area.x), static_cast<float>(y)});
  ImGui::Dummy({1, static_cast<float>(frame.px(12))});
  scroll_by_wheel(frame);
  // Where the column goes on it fades, so that nothing seems cut off.
  const double fade = scrolled < static_cast<double>(ImGui::GetScrollMaxY()) ? frame.px(28) : 0;
  FigureCanvas canvas = frame.look.canvas();
  for (double line = 0; line < fade; ++line)
    canvas.fill_rect({area.x, area.bottom() - fade + line, area.width - margin, 1}, 0,
                     faded(frame.look.theme->panel, line / fade));
  ImGui::EndChild();
}

}  // namespace afterglow
