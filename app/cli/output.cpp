// Writing to stdout and stderr.
#include "app/cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace afterglow {

namespace {
constexpr int bar_width = 28;
constexpr double redraw_interval = 0.1;  // seconds

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
}  // namespace

void Output::line(const std::string& text) const {
  if (!json) std::printf("%s\n", text.c_str());
}

void Output::message(const std::string& text) const {
  if (!quiet) std::fprintf(stderr, "%s\n", text.c_str());
}

void Output::progress(const std::string& name, double share, const std::function<std::string()>& text) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (quiet || !terminal || (share < 1.0 && now() - last_drawn_ < redraw_interval)) return;
  last_drawn_ = now();
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * bar_width);
  std::string bar;
  for (int i = 0; i < bar_width; ++i) bar += i < full ? "█" : "░";
  std::fprintf(stderr, "\r\033[K%s %s %s", name.c_str(), bar.c_str(), text().c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Output::end_progress() {
  if (drawn_) std::fprintf(stderr, "\n");
  drawn_ = false;
}

}  // namespace afterglow
