// Stands in for the window where the program was built without it.
#include <cstdio>

#include "app/window/window.h"
#include "core/io/error.h"

namespace afterglow {

int run_window(const WindowOptions&) {
  std::fputs("afterglow: this build has no window (configure with -DAFTERGLOW_GUI=ON to get one)\n", stderr);
  return static_cast<int>(ExitCode::failure);
}

}  // namespace afterglow
