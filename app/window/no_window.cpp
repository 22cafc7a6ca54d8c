// Replaces the window in builds without it.
#include "app/window/window.h"
#include "core/io/error.h"

namespace afterglow {

void run_window(const WindowOptions&) {
  throw Error(ExitCode::failure, "this build has no window (configure with -DAFTERGLOW_GUI=ON to get one)");
}

std::vector<std::string> first_page_plots(const ModelSummary&) { return {"training"}; }

std::vector<std::string> workspace_names() { return {}; }

}  // namespace afterglow
