// Starts the session, then the window.
#include "app/window/window.h"

#include <cstdio>

#include "app/window/window_loop.h"
#include "core/io/error.h"

namespace afterglow {

int run_window(const WindowOptions& options) {
  try {
    const auto source = start_session(options.recipe, options.session);
    WindowLoop(options, *source).run();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "afterglow: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "afterglow: %s\n", error.what());
    return static_cast<int>(ExitCode::failure);
  }
}

}  // namespace afterglow
