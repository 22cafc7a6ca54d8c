// Starts the session, then the window.
#include "app/window/window.h"

#include <unistd.h>

#include "app/window/window_loop.h"
#include "core/io/folders.h"
#include "views/page/page.h"

namespace afterglow {

namespace {

/// Where exports and snapshots go: the current folder of a terminal, else Documents/Afterglow.
std::filesystem::path folder_for_files() {
  if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO) || isatty(STDERR_FILENO)) return "";
  return user_folders().documents;
}

}  // namespace

void run_window(const WindowOptions& wanted) {
  WindowOptions options = wanted;
  options.session.open_file = options.open_path;
  options.session.save_folder = folder_for_files();
  const auto source = start_session(options.recipe, options.session);
  WindowLoop(options, *source).run();
}

std::vector<std::string> workspace_names() {
  std::vector<std::string> names;
  for (const Workspace& workspace : workspaces()) names.emplace_back(workspace.id);
  return names;
}

}  // namespace afterglow
