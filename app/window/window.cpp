// Starts the session, then the window.
#include "app/window/window.h"

#include <unistd.h>

#include <cstdio>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/window/window_loop.h"
#include "core/engine/session/kept_runs.h"
#include "core/io/folders.h"
#include "core/io/terminal_text.h"
#include "views/page/page.h"

namespace afterglow {

namespace {

/// Folder for exports and snapshots: the current folder of a terminal, else Documents/Afterglow.
std::filesystem::path folder_for_files() {
  if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO) || isatty(STDERR_FILENO)) return "";
  return user_folders().documents;
}

/// Saves the run of a closed window, after the window has gone.
void keep_last_run(const std::filesystem::path& folder, const std::function<Snapshot()>& make) {
  try {
    const KeptRun kept = keep_run(folder, make());
    std::fprintf(stderr, "saved %s; continue with: afterglow %s\n", terminal_text(kept.label).c_str(),
                 terminal_text(kept.path.string()).c_str());
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "afterglow: the run is not saved: %s\n", terminal_text(problem.what()).c_str());
  }
}

std::unique_ptr<ObservationSource> open_second(const std::string& word, SessionOptions options) {
  const auto saved = std::make_shared<SavedRun>(open_named(word, newest_state));
  const bool trains = !saved->has_weights();
  options.opened = saved;
  options.at_end = {};
  auto source = std::make_unique<Session>("", options);
  if (trains) source->send({"run"});
  return source;
}

}  // namespace

void run_window(const WindowOptions& wanted) {
  WindowOptions options = wanted;
  options.session.save_folder = folder_for_files();
  if (!is_automatic(options) && !options.is_locked) {
    options.session.at_end = [folder = kept_runs_folder(options.is_portable)](const std::function<Snapshot()>& make) {
      keep_last_run(folder, make);
    };
  }
  const Interruption noticed;  // until the run is saved
  {
    Session source(options.recipe, options.session);
    const auto open = [&](const std::string& word) { return open_second(word, options.session); };
    WindowLoop(options, source, open).run(Interruption::wanted);
  }
  Interruption::check("while the window was open");
}

std::vector<std::string> first_page_plots(const ModelSummary& model) {
  PageState page;
  follow_model(page, model);
  std::vector<std::string> plots;
  for (const WorkspaceRow& row : fitting_rows(present_workspace(page), model)) {
    for (const WorkspacePanel& panel : row.panels) plots.emplace_back(panel.id);
  }
  return plots;
}

std::vector<std::string> workspace_names() {
  std::vector<std::string> names;
  for (const Workspace& workspace : workspaces()) names.emplace_back(workspace.id);
  return names;
}

}  // namespace afterglow
