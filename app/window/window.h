// The window: opens, shows the session until the user closes it, and returns an exit code.
#pragma once
#include <string>
#include <vector>

#include "core/engine/session/session.h"
#include "core/remote/wire.h"

namespace afterglow {

struct WindowOptions {
  std::string recipe;  ///< JSON text that the session starts from
  std::string lesson;  ///< name or file of a lesson that is opened at the start; empty: none
  OpeningRun against;  ///< the run that is compared with it
  SessionOptions session;
  std::string on, through;            ///< where the session runs, or a command that connects to it; empty: here
  std::string session_name = "main";  ///< of the session there
  Hello hello;                        ///< its start, where that is not `recipe` alone
  std::string theme;                  ///< dark, light or projector; empty: as saved
  double scale = 0;                   ///< scale of everything; 0: as saved, 1 at first
  std::string size;                   ///< "1600x1000"; empty: as saved
  std::string script;                 ///< JSON file of timed commands, see script.h
  std::string screenshot;             ///< PNG file of the last frame
  int exit_after_frames = 0;          ///< closes after so many frames; 0: when the user closes it
  bool is_portable = false;           ///< keeps its settings in the program's folder
  bool is_locked = false;             ///< without controls, permanently
  bool has_presenter = false;         ///< shows the notes of the lesson in a second window
  /// What this machine offers.
  std::shared_ptr<const Machine> (*machine)() = [] { return machine_with({}); };
};

/// Runs that make pictures or follow a script have the same appearance everywhere: they neither read nor save user
/// settings.
inline bool is_automatic(const WindowOptions& options) {
  return options.exit_after_frames > 0 || !options.screenshot.empty() || !options.script.empty();
}

/// Runs until the user closes the window or a signal ends it; saves a run that trained for some seconds. Throws Error
/// if it cannot open, or if it cannot write the wanted picture.
void run_window(const WindowOptions& options);

/// The plots of the page that opens first for a model; in a build without the window those of the training.
std::vector<std::string> first_page_plots(const ModelSummary& model);

/// Names of the pages, as the command `workspace` takes them; empty in a build without the window.
std::vector<std::string> workspace_names();

}  // namespace afterglow
