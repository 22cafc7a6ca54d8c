// Runs the window's own commands: each one in the table has a handler here.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/command.h"
#include "views/frame/frame.h"

namespace afterglow {

enum class FilmForm;  // app/window/film/film_files.h
struct ReportTour;    // views/plots/report_page.h

/// Functions that only the window system provides.
struct WindowActions {
  std::function<void()> toggle_full_screen = [] {};
  std::function<void(const std::string& path)> save_picture = [](const std::string&) {};
  std::function<void(FilmForm form)> save_film = [](FilmForm) {};
  std::function<void(const std::string& path)> keep_status = [](const std::string&) {};
  std::function<void()> close = [] {};
  std::function<void(const std::string& text)> copy_text = [](const std::string&) {};
  std::function<void(const std::string& png)> copy_picture = [](const std::string&) {};
  std::function<void(const std::string& word)> compare_with = [](const std::string&) {};  ///< throws Error
  std::function<void()> swap_runs = [] {};                                                ///< of a comparison
  std::function<void(ReportTour tour)> begin_report;  ///< null: no window goes through the run
  std::string export_folder = ".";                    ///< folder for figures without a path
  std::string kept_folder;  ///< folder of the runs of closed windows; empty: the window offers none
};

struct CommandContext {
  PageState& page;
  FigureCache& figures;
  std::shared_ptr<const Observation> observation;
  CommandQueue& engine;  ///< commands that follow from a window command: "one step back" is a rewind
  WindowActions& actions;
  double time = 0;
};

/// Names of the commands that have a handler.
std::vector<std::string_view> handled_window_commands();
/// Runs a command of the window. An invalid value leaves a note and changes nothing; never throws.
void run_window_command(CommandContext& context, const Command& command);

/// Runs one command with its value.
using WindowHandler = void(CommandContext& context, const nlohmann::json& value);
/// Handlers that have their own files.
WindowHandler run_export, run_report, run_copy, run_view, run_lesson, open_picker;
WindowHandler turn_page, change_layout, reset_layout, show_controls, blank_screen;
WindowHandler go_to_token, go_left, go_right, go_home, go_to_end, play;
/// The plots that a command addresses: one by name, all of a named panel, or the one under the mouse; otherwise empty.
std::vector<const Figure*> meant_plots(CommandContext& context, const nlohmann::json& value);
/// Shows all pictures inside a step again if one of them is shown alone; false otherwise.
bool leave_picture(CommandContext& context);

/// Puts a file or preset that was opened at the top of the list of recent ones.
void note_recent(PageState& page, const Command& load);

/// The recipe that a figure stores, with the view of the page.
std::string recipe_with_view(const Figure& figure, const PageState& page);

}  // namespace afterglow
