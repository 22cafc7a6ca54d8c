// Starts the session, then the window.
#include "app/window/window.h"

#include "app/window/window_loop.h"

namespace afterglow {

void run_window(const WindowOptions& options) {
  const auto source = start_session(options.recipe, options.session);
  WindowLoop(options, *source).run();
}

}  // namespace afterglow
