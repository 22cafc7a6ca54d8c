// Finds and runs any command by a part of its name, and any named thing: presets, panels, pages, themes, sizes,
// layouts. Commands with a value show an editable example.
#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>

#include "core/io/json.h"
#include "views/page/page.h"
#include "views/plots/plot_kinds.h"
#include "views/widgets/text_field.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr std::size_t shown_lines = 9;

/// The typed text, split where the value begins: "step count=5", or as scripts write it "step {"count": 5}".
struct Typed {
  std::string_view words, value;
};
Typed typed_parts(std::string_view text) {
  std::size_t begin = std::min(text.find('{'), text.size());
  if (const std::size_t equals = text.find('='); equals < begin) {
    const std::size_t space = text.rfind(' ', equals);
    begin = space == std::string_view::npos ? 0 : space + 1;
  }
  return {text.substr(0, begin), text.substr(begin)};
}

/// A value as the user types it: 5, true, light, or with commas if `like` is a list.
std::optional<json> typed_field(const std::string& text, const json& like) {
  if (like.is_array()) {
    json list = json::array();
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
      const json element = json::parse(part, nullptr, false);
      list.push_back(element.is_discarded() ? json(part) : element);
    }
    return list;
  }
  const json value = json::parse(text, nullptr, false);
  if (like.is_number() && !value.is_number()) return std::nullopt;
  if (like.is_boolean() && !value.is_boolean()) return std::nullopt;
  if (like.is_string() || value.is_discarded()) return text.empty() ? std::nullopt : std::optional<json>(text);
  return value;
}

/// The typed value, with fields such as those of the command's example; empty while it is incomplete.
std::optional<json> typed_value(std::string_view typed, const json& example) {
  if (typed.starts_with('{')) {
    const json value = json::parse(typed, nullptr, false);
    return value.is_discarded() ? std::nullopt : std::optional<json>(value);
  }
  json value = json::object();
  std::istringstream fields{std::string(typed)};
  std::string key, text;
  while (std::getline(fields >> std::ws, key, '=')) {
    // Quotes keep a text with spaces together, and an empty one.
    const bool is_quoted = fields.peek() == '"';
    if (is_quoted) {
      fields.get();
      std::getline(fields, text, '"');
    } else if (fields.eof() || std::isspace(fields.peek())) {
      text.clear();
    } else {
      fields >> text;
    }
    std::replace(key.begin(), key.end(), '.', '/');
    const json::json_pointer place("/" + key);
    const std::optional<json> field =
        is_quoted && text.empty() ? json("") : typed_field(text, example.contains(place) ? example[place] : json());
    if (!field) return std::nullopt;
    value[place] = *field;
    text.clear();
  }
  return value;
}

/// An example as the user would type it: "count=1", inside of another field "selection.head=0".
std::string typed_text(const json& example, const std::string& prefix = "") {
  std::string text;
  for (const auto& [key, value] : example.items()) {
    if (value.is_object()) {
      text += (text.empty() ? "" : " ") + typed_text(value, prefix + key + ".");
      continue;
    }
    std::string field;
    if (value.is_array()) {
      for (const json& element : value)
        field += (field.empty() ? "" : ",") + (element.is_string() ? element.get<std::string>() : element.dump());
    } else {
      field = value.is_string() ? value.get<std::string>() : value.dump();
    }
    if (field.find(' ') != std::string::npos) field = '"' + field + '"';
    text += (text.empty() ? "" : " ") + prefix + key + "=" + field;
  }
  return text;
}

/// A command's meaning without JSON braces and quotes.
std::string readable(std::string_view meaning) {
  std::string text;
  bool is_value = false;
  for (std::size_t i = 0; i < meaning.size(); ++i) {
    const char c = meaning[i];
    is_value = c == '{' || (is_value && c != '}');
    if (c == '{' || c == '}' || (is_value && c == '"')) continue;
    if (is_value && c == ':' && i + 1 < meaning.size() && meaning[i + 1] == ' ') {
      text += '=';
      ++i;
    } else {
      text += c;
    }
  }
  return text;
}

/// How well a word fits a line: 3 for the start of its name, 1 for somewhere in its meaning, 0 for not at all.
int word_score(const PaletteLine& line, const std::string& word) {
  const std::string title = lower_case(line.title);
  if ((!line.is_ready && line.name.starts_with(word)) || title.starts_with(word)) return 3;
  if ((!line.is_ready && line.name.find(word) != std::string::npos) || title.find(word) != std::string::npos) return 2;
  return lower_case(line.meaning).find(word) != std::string::npos ? 1 : 0;
}

PaletteLine ready_line(std::string name, const json& value, std::string title, std::string meaning) {
  return {std::move(name), std::move(title), "", std::move(meaning), value.dump(), true};
}

/// Named things of every machine, each a command with its value: lessons, panels, pages, themes, sizes.
const std::vector<PaletteLine>& ready_lines() {
  static const std::vector<PaletteLine> lines = [] {
    std::vector<PaletteLine> made;
    for (const ShippedLesson& shipped : shipped_lessons()) {
      const Lesson lesson = parse_lesson(shipped.text, shipped.name);
      const LessonLine* about = find_line(lesson.head, LessonWord::about);
      made.push_back(
          ready_line("lesson", {{"open", shipped.name}}, "Lesson: " + lesson.title, about ? about->text : ""));
    }
    for (const PlotKind& kind : plot_kinds())
      made.push_back(ready_line("maximise", {{"panel", kind.id}}, std::string(kind.title), std::string(kind.about)));
    for (const Workspace& workspace : workspaces()) {
      made.push_back(ready_line("workspace", {{"name", workspace.id}}, "Page " + std::string(workspace.title),
                                std::string(workspace.question)));
    }
    for (const Theme* theme : {&dark_theme(), &light_theme(), &projector_theme()})
      made.push_back(ready_line("theme", {{"name", theme->name}}, "Theme " + std::string(theme->name), ""));
    for (const int percent : {75, 100, 125, 150, 175, 200}) {
      made.push_back(ready_line("zoom", {{"to", percent / 100.0}}, "Size " + std::to_string(percent) + " %",
                                "Scales text, plots and controls."));
    }
    made.push_back(ready_line("copy", {{"what", "setup"}}, "Copy the set-up command",
                              "Copies the command that reproduces this moment, for a course page."));
    return made;
  }();
  return lines;
}

void put_text(PaletteState& palette, std::string text, const TextStretch& selected) {
  palette.text = std::move(text);
  palette.selected = selected;
  palette.chosen = 0;
  palette.wants_focus = true;
  ++palette.generation;
}

/// Runs the line, or puts its example into the field if it needs a value.
void accept(PageState& state, CommandQueue& commands) {
  const Typed typed = typed_parts(state.palette.text);
  const std::vector<PaletteLine> matches = palette_matches(state.palette.text, state);
  if (matches.empty()) return;
  const PaletteLine& line =
      matches[static_cast<std::size_t>(std::clamp(state.palette.chosen, 0, static_cast<int>(matches.size()) - 1))];
  const auto end = static_cast<int>(line.value.size());
  if (line.name.empty()) return put_text(state.palette, line.value, {end, end});
  const json example = json::parse(line.value);
  if (!line.is_ready && typed.value.empty() && !example.empty()) {
    const std::string text = line.name + " " + typed_text(example);
    return put_text(state.palette, text, first_value(text));
  }
  const std::optional<json> value = line.is_ready ? example : typed_value(typed.value, example);
  if (!value) return;
  const Command command{line.name, *value};
  state.palette = {};
  commands.send(command);
}

void draw_line(const Frame& frame, Canvas& canvas, const PaletteLine& spec, const Rect& row, bool is_chosen) {
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

TextStretch first_value(const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size() - 1);
  const bool is_quoted = text.find('"', equals) == equals + 1;
  const std::size_t begin = equals + (is_quoted ? 2 : 1), end = text.find(is_quoted ? '"' : ' ', begin);
  return {static_cast<int>(begin), static_cast<int>(std::min(end, text.size()))};
}

std::string typed_note(std::span<const RunNote> notes, std::size_t number, const std::string& place) {
  std::string words = number > 0 ? notes[number - 1].text : "";
  std::ranges::replace(words, '"', '\'');  // which would end the text
  return "note text=\"" + words + "\" " + (number > 0 ? "number=" + std::to_string(number) : place);
}

std::optional<std::string> typed_path(std::string_view text) {
  constexpr std::string_view field = "path=";
  const std::size_t at = text.rfind(field);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + field.size());
  const bool is_quoted = text.starts_with('"');
  if (is_quoted) text.remove_prefix(1);
  return text.find(is_quoted ? '"' : ' ') == text.npos ? std::optional<std::string>(text) : std::nullopt;
}

std::vector<PaletteLine> palette_matches(std::string_view text, const PageState& state) {
  std::vector<std::string> words;
  std::istringstream typed(lower_case(typed_parts(text).words));
  for (std::string word; typed >> word;) words.push_back(word);
  std::vector<std::pair<int, PaletteLine>> scored;
  const auto add = [&](const PaletteLine& line) {
    int score = 0;
    bool fits = true;
    for (const std::string& w : words) {
      const int s = word_score(line, w);
      fits = fits && s > 0;
      score += !line.is_ready && w == line.name ? 10 : s;
    }
    if (fits) scored.emplace_back(score, line);
  };
  for (const CommandSpec& spec : command_table()) {
    add({std::string(spec.name), std::string(spec.title), std::string(spec.keys), readable(spec.meaning),
         std::string(spec.example), false});
  }
  if (!words.empty()) {
    add({"probe_sequence", "Type a prompt", "", "The model reads your words, if its folder has a tokenizer.",
         R"({"text": "your words"})", false});
    for (const PresetName& preset : state.machine->presets) {
      add(ready_line("load", {{"preset", preset.name}}, "Open " + preset.name,
                     preset.title + " · task " + preset.task));
    }
    for (const auto& [name, description] : state.machine->devices)
      add(ready_line("device", {{"name", name}}, "Device: " + description, "Trains on it from this step on."));
    std::ranges::for_each(ready_lines(), add);
    for (const auto& [name, layout] : state.layouts)
      add(ready_line("layout", {{"choose", name}}, "Layout " + name, "Opens a layout that you saved."));
  }
  std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<PaletteLine> list;
  const std::optional<std::string> path = typed_path(text);
  for (auto& [score, line] : scored) {
    list.push_back(std::move(line));
    if (!path || list.size() > 1) continue;
    const std::string before(text.substr(0, text.size() - path->size()));
    for (const std::string& found : state.palette.paths) {
      if (found.starts_with(*path) && found != *path) list.push_back({"", found, "", "", before + found, false});
    }
  }
  return list;
}

void palette_key(PageState& state, CommandQueue& commands, ListKey key) {
  const int last = static_cast<int>(palette_matches(state.palette.text, state).size()) - 1;
  if (key == ListKey::up) state.palette.chosen = std::max(0, state.palette.chosen - 1);
  if (key == ListKey::down) state.palette.chosen = std::clamp(state.palette.chosen + 1, 0, std::max(0, last));
  if (key == ListKey::accept) accept(state, commands);
  if (key == ListKey::leave) state.palette = {};
}

void draw_palette(Frame& frame) {
  PaletteState& palette = frame.state.palette;
  if (!palette.is_open) return;
  const Rect all = window_bounds();
  const Theme& theme = *frame.look.theme;
  const double width = std::min(frame.px(640), all.width - frame.px(32)), line = frame.px(32), head = frame.px(48);
  const std::vector<PaletteLine> matches = palette_matches(palette.text, frame.state);
  const std::size_t shown = std::min(matches.size(), shown_lines);
  const Rect box{(all.width - width) / 2, std::round(frame.px(72)), width,
                 head + static_cast<double>(std::max<std::size_t>(shown, 1)) * line + frame.px(10)};
  FigureCanvas canvas = begin_sheet(frame, "palette", box);
  const bool wants_focus = std::exchange(palette.wants_focus, false);
  const std::string id = "##command" + std::to_string(palette.generation);
  const FieldResult field =
      text_field(frame.look, id.c_str(), palette.text,
                 {box.x + frame.px(14), box.y + frame.px(6), width - frame.px(28), head - frame.px(10)}, body_size,
                 FontFace::regular, wants_focus, &palette.selected);
  if (field.edited) palette.chosen = 0;
  palette.chosen = std::clamp(palette.chosen, 0, std::max(0, static_cast<int>(matches.size()) - 1));
  const std::size_t first = static_cast<std::size_t>(std::max(0, palette.chosen - static_cast<int>(shown_lines) + 1));
  for (std::size_t i = first; i < std::min(matches.size(), first + shown_lines); ++i) {
    const Rect row{box.x + frame.px(8), box.y + head + static_cast<double>(i - first) * line, width - frame.px(16),
                   line};
    ImGui::PushID(static_cast<int>(i));
    const Press press = press_area("line", row);
    ImGui::PopID();
    draw_line(frame, canvas, matches[i], row, static_cast<int>(i) == palette.chosen);
    if (press.hovered && (ImGui::GetIO().MouseDelta.x != 0 || ImGui::GetIO().MouseDelta.y != 0))
      palette.chosen = static_cast<int>(i);
    if (press.clicked) {
      palette.chosen = static_cast<int>(i);
      accept(frame.state, frame.commands);
    }
  }
  if (matches.empty()) {
    row_text(frame.look, canvas, {box.x + frame.px(20), box.y + head, width, line}, "No match.",
             {body_size, FontFace::regular, theme.faint, Anchor::start});
  }
  if (ImGui::IsMouseClicked(0) && !box.contains(mouse_place())) palette = {};
  ImGui::End();
}

}  // namespace afterglow
