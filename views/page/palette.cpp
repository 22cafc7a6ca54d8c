// Finds and runs any command by typing a part of its name, and shows any plot alone by its title; commands with a value
// show an example to change.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "views/figures/plot_kinds.h"
#include "views/page/page.h"
#include "views/text_field.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr std::size_t shown_lines = 9;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

/// What was typed, split where the value begins: "step {"count": 5}".
struct Typed {
  std::string_view words, value;
};
Typed typed_parts(std::string_view text) {
  const std::size_t brace = text.find('{');
  if (brace == std::string_view::npos) return {text, {}};
  return {text.substr(0, brace), text.substr(brace)};
}

/// How well a word fits a command: 3 for the start of its name, 1 for somewhere in its meaning, 0 for not at all.
int word_score(const CommandSpec& spec, const std::string& word) {
  const std::string name(spec.name), title = lower_case(spec.title);
  if (name.starts_with(word) || title.starts_with(word)) return 3;
  if (name.find(word) != std::string::npos || title.find(word) != std::string::npos) return 2;
  return lower_case(spec.meaning).find(word) != std::string::npos ? 1 : 0;
}

/// Every plot as the command that shows it alone.
const std::vector<CommandSpec>& plot_lines() {
  static const std::vector<std::string> values = [] {
    std::vector<std::string> made;
    for (const PlotKind& kind : plot_kinds()) made.push_back(R"({"panel": ")" + std::string(kind.id) + R"("})");
    return made;
  }();
  static const std::vector<CommandSpec> lines = [] {
    std::vector<CommandSpec> made;
    for (const PlotKind& kind : plot_kinds())
      made.push_back({"maximise", CommandTarget::window, kind.title, "", values[made.size()], kind.about});
    return made;
  }();
  return lines;
}

void close(PageState& state) { state.palette = {}; }

/// Runs the command, or puts its example into the field when it needs a value that was not typed yet.
void accept(PageState& state, CommandQueue& commands) {
  const std::string text = state.palette.text;
  const Typed typed = typed_parts(text);
  const auto matches = palette_matches(typed.words);
  if (matches.empty()) return;
  const CommandSpec& spec =
      *matches[static_cast<std::size_t>(std::clamp(state.palette.chosen, 0, static_cast<int>(matches.size()) - 1))];
  if (typed.value.empty() && spec.example != "{}") {
    state.palette.text = std::string(spec.name) + " " + std::string(spec.example);
    state.palette.chosen = 0;
    state.palette.wants_focus = true;
    ++state.palette.generation;
    return;
  }
  const std::string value(typed.value.empty() ? "{}" : typed.value);
  if (!nlohmann::json::accept(value)) return;
  close(state);
  commands.send(Command{std::string(spec.name), value});
}

void draw_line(const Frame& frame, Canvas& canvas, const CommandSpec& spec, const Rect& row, bool is_chosen) {
  const Theme& theme = *frame.look.theme;
  if (is_chosen) canvas.fill_rect(row, frame.px(6), mixed(theme.raised, theme.accent, 0.16));
  const Rect inside{row.x + frame.px(12), row.y, row.width - frame.px(24), row.height};
  const double keys = spec.keys.empty() ? 0
                                        : row_text(frame.look, canvas, inside, spec.keys,
                                                   {tiny_size, FontFace::mono, theme.dim, Anchor::end}) +
                                              frame.px(12);
  const double title =
      row_text(frame.look, canvas, inside, spec.title, {body_size, FontFace::regular, theme.text, Anchor::start}) +
      frame.px(10);
  row_text(frame.look, canvas, {inside.x + title, inside.y, inside.width - title - keys, inside.height}, spec.meaning,
           {small_size, FontFace::regular, theme.faint, Anchor::start});
}

}  // namespace

std::vector<const CommandSpec*> palette_matches(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : lower_case(typed_parts(text).words) + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  std::vector<std::pair<int, const CommandSpec*>> scored;
  const auto add = [&](const CommandSpec& spec) {
    int score = 0;
    bool fits = true;
    for (const std::string& w : words) {
      const int s = word_score(spec, w);
      fits = fits && s > 0;
      score += w == spec.name ? 10 : s;
    }
    if (fits) scored.emplace_back(score, &spec);
  };
  std::ranges::for_each(command_table(), add);
  if (!words.empty()) std::ranges::for_each(plot_lines(), add);
  std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<const CommandSpec*> list;
  for (const auto& [score, spec] : scored) list.push_back(spec);
  return list;
}

void palette_key(PageState& state, CommandQueue& commands, ListKey key) {
  const int last = static_cast<int>(palette_matches(state.palette.text).size()) - 1;
  if (key == ListKey::up) state.palette.chosen = std::max(0, state.palette.chosen - 1);
  if (key == ListKey::down) state.palette.chosen = std::clamp(state.palette.chosen + 1, 0, std::max(0, last));
  if (key == ListKey::accept) accept(state, commands);
  if (key == ListKey::leave) close(state);
}

void draw_palette(Frame& frame) {
  PaletteState& palette = frame.state.palette;
  if (!palette.is_open) return;
  const Rect all = window_bounds();
  const Theme& theme = *frame.look.theme;
  const double width = std::min(frame.px(640), all.width - frame.px(32)), line = frame.px(32), head = frame.px(48);
  const std::vector<const CommandSpec*> matches = palette_matches(palette.text);
  const std::size_t shown = std::min(matches.size(), shown_lines);
  const Rect box{(all.width - width) / 2, std::round(frame.px(72)), width,
                 head + static_cast<double>(std::max<std::size_t>(shown, 1)) * line + frame.px(10)};
  FigureCanvas canvas = begin_sheet(frame, "palette", box);
  const bool wants_focus = std::exchange(palette.wants_focus, false);
  const std::string id = "##command" + std::to_string(palette.generation);
  const FieldResult field =
      text_field(frame.look, id.c_str(), palette.text,
                 {box.x + frame.px(14), box.y + frame.px(6), width - frame.px(28), head - frame.px(10)}, body_size,
                 FontFace::regular, wants_focus);
  if (field.edited) palette.chosen = 0;
  palette.chosen = std::clamp(palette.chosen, 0, std::max(0, static_cast<int>(matches.size()) - 1));
  const std::size_t first = static_cast<std::size_t>(std::max(0, palette.chosen - static_cast<int>(shown_lines) + 1));
  for (std::size_t i = first; i < std::min(matches.size(), first + shown_lines); ++i) {
    const Rect row{box.x + frame.px(8), box.y + head + static_cast<double>(i - first) * line, width - frame.px(16),
                   line};
    ImGui::PushID(static_cast<int>(i));
    const Press press = press_area(matches[i]->name.data(), row);
    ImGui::PopID();
    draw_line(frame, canvas, *matches[i], row, static_cast<int>(i) == palette.chosen);
    if (press.hovered && (ImGui::GetIO().MouseDelta.x != 0 || ImGui::GetIO().MouseDelta.y != 0))
      palette.chosen = static_cast<int>(i);
    if (press.clicked) {
      palette.chosen = static_cast<int>(i);
      accept(frame.state, frame.commands);
    }
  }
  if (matches.empty()) {
    row_text(frame.look, canvas, {box.x + frame.px(20), box.y + head, width, line}, "No command has these words.",
             {body_size, FontFace::regular, theme.faint, Anchor::start});
  }
  if (ImGui::IsMouseClicked(0) && !box.contains(mouse_place())) close(frame.state);
  ImGui::End();
}

}  // namespace afterglow
