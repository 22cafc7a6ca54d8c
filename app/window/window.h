// The window: opens, shows the session until it is closed, and answers with an exit code.
#pragma once
#include <string>
#include <vector>

#include "core/engine/session/session.h"

namespace afterglow {

struct WindowOptions {
  std::string recipe;     ///< JSON text that the session starts from
  std::string open_path;  ///< file that is loaded right after the start; empty: none
  std::string lesson;     ///< name or file of a lesson that is opened at the start; empty: none
  SessionOptions session;
  std::string theme;           ///< dark, light or projector; empty: as it was left
  double scale = 0;            ///< size of everything; 0: as it was left, 1 at first
  std::string size;            ///< "1600x1000"; empty: as it was left
  std::string script;          ///< JSON file with commands and when to give them, see script.h
  std::string screenshot;      ///< PNG file that the last frame is written to
  int exit_after_frames = 0;   ///< closes by itself; 0: when the user does
  bool is_portable = false;    ///< keeps its settings beside the program
  bool is_locked = false;      ///< without controls, and nothing brings them back
  bool has_presenter = false;  ///< with the notes of the lesson in a second window
};

/// Runs that make pictures or follow a script look the same everywhere: they neither read nor keep anything of a
/// user's.
inline bool is_automatic(const WindowOptions& options) {
  return options.exit_after_frames > 0 || !options.screenshot.empty() || !options.script.empty();
}

/// Runs until the window is closed or a signal ends it; a run that trained for some seconds is kept then. Throws Error
/// where it cannot open, and where the picture that was asked for could not be written.
void run_window(const WindowOptions& options);

/// The plots of the page that opens first for a model; in a build without the window its training.
std::vector<std::string> first_page_plots(const ModelSummary& model);

/// Of the arrangements of panels, as the command `workspace` takes them; none in a build without the window.
std::vector<std::string> workspace_names();

}  // namespace afterglow
