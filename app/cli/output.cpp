// Writing to stdout and stderr.
#include "app/cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "core/io/number_text.h"
#include "core/io/terminal_text.h"

namespace afterglow {
namespace {
constexpr int bar_width = 28;
constexpr double redraw_interval = 0.1;  // seconds

constexpr double shortest_estimate = 1;  // seconds of work after which the remaining time is shown

/// A sentence for people: on a terminal wrapped between words to its width, elsewhere one line.
std::string broken_text(std::string_view sentence) {
  std::string text = terminal_text(sentence);
  winsize size{};
  const std::size_t width = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  for (std::size_t line = 0; width > 0 && text.size() - line > width;) {
    const std::size_t space = text.rfind(' ', line + width);
    if (space == std::string::npos || space <= line) break;
    text[space] = '\n';
    line = space + 1;
  }
  return text;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void say_without_memory(const Output& output, ExitCode code, const char* message) {
  if (output.json) std::printf("{\"ok\":false,\"code\":%d}\n", static_cast<int>(code));
  std::fputs("afterglow: ", stderr);
  for (const char* c = message; *c != '\0'; ++c)
    std::fputc(std::iscntrl(static_cast<unsigned char>(*c)) ? '?' : *c, stderr);
  std::fputc('\n', stderr);
}
}  // namespace

void Output::write_line(const std::string& text) {
  std::printf("%s\n", terminal_text(text).c_str());
  std::fflush(stdout);  // without this a pipe would hold back pages of lines, each of which took seconds to measure
}

void Output::print(const char* format, ...) const {
  char* text = nullptr;
  std::va_list arguments;
  va_start(arguments, format);
  const int length = ::vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0) throw std::bad_alloc();
  const std::unique_ptr<char, void (*)(void*)> owner(text, std::free);
  line(text);
}

std::string Output::wrote(const std::filesystem::path& file) const {
  line("written  ", file.string());
  return file.string();
}

void Output::write_message(const std::string& text) { std::fprintf(stderr, "%s\n", broken_text(text).c_str()); }

void Output::progress(const std::string& name, double share, const std::function<std::string()>& text) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!has_begun_) {
    has_begun_ = true;
    begun_at_ = now();
    share_at_begin_ = share;
  }
  if (quiet || !terminal || (share < 1.0 && now() - last_drawn_ < redraw_interval)) return;
  last_drawn_ = now();
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * bar_width);
  std::string bar;
  for (int i = 0; i < bar_width; ++i) bar += i < full ? "█" : "░";
  const double worked = now() - begun_at_, done = share - share_at_begin_;
  const bool is_known = worked > shortest_estimate && done > 0 && share < 1;
  const std::string left = is_known ? "  " + duration_text(worked / done * (1 - share)) + " left" : "";
  std::fprintf(stderr, "\r\033[K%s %s %s%s", terminal_text(name).c_str(), bar.c_str(), terminal_text(text()).c_str(),
               left.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Output::end_progress() {
  if (drawn_) std::fprintf(stderr, "\n");
  drawn_ = has_begun_ = false;
}

int say_failure(const Output& output, ExitCode code, const char* message) noexcept {
  try {
    if (output.json) {
      const nlohmann::json object{{"ok", false}, {"code", static_cast<int>(code)}, {"error", message}};
      std::printf("%s\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    } else {
      std::fprintf(stderr, "%s\n", broken_text("afterglow: " + std::string(message)).c_str());
    }
  } catch (...) {
    say_without_memory(output, code, message);
  }
  std::fflush(stdout);
  return static_cast<int>(code);
}

void require_output_arrived() {
  const bool is_written = std::fflush(stdout) == 0;
  if (is_written && std::ferror(stdout) == 0) return;
  throw Error(ExitCode::failure,
              "stdout cannot be written: it is closed, the disk is full or the reading program has ended; the files "
              "are complete");
}

}  // namespace afterglow
