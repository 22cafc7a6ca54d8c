// The window's settings from start to start: one JSON file with a version in the user's configuration folder.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "views/frame/page_state.h"

namespace afterglow {

struct WindowSettings : Layout {
  std::string theme = "dark";
  double zoom = 1;
  int width = 1600, height = 1000;
  std::map<std::string, Layout> layouts;
  std::vector<std::string> recent;
  bool is_first_start = true;  ///< the hints are still due
  bool shows_intro = true;     ///< until the introduction is closed
};

/// Path of the settings: settings.json in the folder for configuration.
std::filesystem::path settings_path(bool is_portable);

/// The usable part of a text; throws Error(bad_input) if it is not a JSON object.
WindowSettings parse_settings(std::string_view text, const std::string& where);
nlohmann::json to_json(const WindowSettings& settings);

/// Reads the usable part; missing, unknown and out-of-range values take their default. A damaged file gives the
/// defaults and a sentence in `warnings`; a missing file gives the defaults silently. Never throws.
WindowSettings read_settings(const std::filesystem::path& path, std::vector<std::string>& warnings);
/// Writes the file completely; returns the reason of a failure, or an empty text.
std::string write_settings(const std::filesystem::path& path, const WindowSettings& settings);

/// Copies settings into the page, and from the page.
void apply_settings(const WindowSettings& settings, PageState& page);
WindowSettings settings_of(const PageState& page, int width, int height);

}  // namespace afterglow
