// Settings as JSON: tolerant when reading, whole when writing.
#include "app/window/settings.h"

#include <algorithm>
#include <cmath>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

constexpr int version = 1;
constexpr std::size_t longest_file = std::size_t{1} << 20;

/// The field if it is of the kind that `is_kind` tests, else null.
const json* find_field(const json& object, const char* key, bool (json::*is_kind)() const noexcept) {
  const auto field = object.find(key);
  return field != object.end() && ((*field).*is_kind)() ? &*field : nullptr;
}

template <class T>
void take_number(const json& object, const char* key, double low, double high, T& value) {
  const json* field = find_field(object, key, &json::is_number);
  if (!field) return;
  const double number = field->get<double>();
  if (std::isfinite(number)) value = static_cast<T>(std::clamp(number, low, high));
}

/// The shares of a layout, and the chosen figure of each panel; invalid entries are left out.
void take_arrangement(const json& object, Layout& layout) {
  if (const json* field = find_field(object, "splits", &json::is_object)) {
    for (const auto& [name, shares] : field->items()) {
      if (!shares.is_array() || shares.size() > 16) continue;
      std::vector<double> numbers;
      for (const json& share : shares) {
        if (share.is_number() && share.get<double>() > 0 && share.get<double>() <= 1)
          numbers.push_back(share.get<double>());
      }
      if (numbers.size() == shares.size()) layout.splits[name] = numbers;
    }
  }
  if (const json* field = find_field(object, "shown_figure", &json::is_object)) {
    for (const auto& [panel, index] : field->items()) {
      if (index.is_number_integer())
        layout.shown_figure[std::string(present_id(panel))] =
            static_cast<int>(std::clamp(index.get<double>(), -1.0, 63.0));
    }
  }
}

void take_layouts(const json& object, std::map<std::string, Layout>& layouts) {
  constexpr std::size_t most = 50, longest_name = 60;
  const json* field = find_field(object, "layouts", &json::is_object);
  if (!field) return;
  for (const auto& [name, kept] : field->items()) {
    if (!kept.is_object() || name.empty() || name.size() > longest_name || layouts.size() >= most) continue;
    Layout layout;
    const json* workspace = find_field(kept, "workspace", &json::is_string);
    layout.workspace = workspace ? workspace->get<std::string>() : "";
    take_arrangement(kept, layout);
    layouts[name] = std::move(layout);
  }
}

void take_recent(const json& object, std::vector<std::string>& recent) {
  constexpr std::size_t most = 12, longest = 4096;
  const json* field = find_field(object, "recent", &json::is_array);
  if (!field) return;
  for (const json& name : *field) {
    if (name.is_string() && name.get<std::string>().size() <= longest && recent.size() < most) recent.push_back(name);
  }
}

json to_json(const std::map<std::string, Layout>& layouts) {
  json all = json::object();
  for (const auto& [name, layout] : layouts)
    all[name] = {{"workspace", layout.workspace}, {"splits", layout.splits}, {"shown_figure", layout.shown_figure}};
  return all;
}

}  // namespace

std::filesystem::path settings_path(bool is_portable) { return settings_folder(is_portable) / "settings.json"; }

WindowSettings parse_settings(std::string_view text, const std::string& where) {
  constexpr JsonLimits limits{longest_file, 16};
  const json object = parse_json(text, where, limits);
  if (!object.is_object()) throw BadInput(where + " contains no object");
  WindowSettings settings;
  for (const char* theme : {"dark", "light", "projector"}) {
    if (object.value("theme", json()) == theme) settings.theme = theme;
  }
  take_number(object, "zoom", 0.5, 3, settings.zoom);
  take_number(object, "width", 640, 16384, settings.width);
  take_number(object, "height", 400, 16384, settings.height);
  if (const json* field = find_field(object, "workspace", &json::is_string)) settings.workspace = *field;
  take_arrangement(object, settings);
  take_layouts(object, settings.layouts);
  take_recent(object, settings.recent);
  settings.is_first_start = false;
  if (const json* field = find_field(object, "intro", &json::is_boolean)) settings.shows_intro = *field;
  return settings;
}

json to_json(const WindowSettings& settings) {
  return {{"version", version},
          {"theme", settings.theme},
          {"zoom", settings.zoom},
          {"width", settings.width},
          {"height", settings.height},
          {"workspace", settings.workspace},
          {"intro", settings.shows_intro},
          {"splits", settings.splits},
          {"shown_figure", settings.shown_figure},
          {"layouts", to_json(settings.layouts)},
          {"recent", settings.recent}};
}

WindowSettings read_settings(const std::filesystem::path& path, std::vector<std::string>& warnings) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  try {
    return parse_settings(read_file(path, longest_file), path.string());
  } catch (const std::exception& problem) {
    warnings.push_back("the settings could not be read, so the window starts with the defaults: " +
                       std::string(problem.what()));
    return {};
  }
}

std::string write_settings(const std::filesystem::path& path, const WindowSettings& settings) {
  try {
    ensure_folder(path.parent_path());
    write_json(path, to_json(settings));
    return "";
  } catch (const std::exception& problem) {
    return "the settings are not saved: " + std::string(problem.what());
  }
}

void apply_settings(const WindowSettings& settings, PageState& page) {
  page.theme = settings.theme;
  page.zoom = settings.zoom;
  static_cast<Layout&>(page) = settings;
  page.layouts = settings.layouts;
  page.recent = settings.recent;
  page.hints.is_drag_due = settings.is_first_start;
  page.hints.is_intro_due = settings.shows_intro;
}

WindowSettings settings_of(const PageState& page, int width, int height) {
  return {page, page.theme, page.zoom, width, height, page.layouts, page.recent, false};
}

}  // namespace afterglow
