// Gives the pictures to ffmpeg in a file without a name; the film and ffmpeg's messages return in others.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
#include <sstream>

#include "app/window/film/film_files.h"
#include "core/io/child_process.h"

namespace afterglow {
namespace {

constexpr std::chrono::seconds patience{60};
constexpr int result_in_child = 3;

// A GIF's colours are chosen from all pictures and mixed in a pattern that does not move. Players of MP4 need even
// sides and colours at half the resolution.
constexpr const char* gif_options =
    " -filter_complex split[a][b];[a]palettegen[p];[b][p]paletteuse=dither=bayer:bayer_scale=5:diff_mode=rectangle -f "
    "gif";
constexpr const char* mp4_options =
    " -vf crop=trunc(iw/2)*2:trunc(ih/2)*2:0:0 -pix_fmt yuv420p -crf 18 -movflags +faststart -f mp4";

std::vector<std::string> arguments_for(const Pixels& first, double interval, VideoForm form) {
  std::istringstream words("ffmpeg -nostdin -hide_banner -loglevel error -f rawvideo -pixel_format rgb24 -video_size " +
                           std::to_string(first.width) + "x" + std::to_string(first.height) + " -framerate " +
                           std::to_string(std::lround(1 / interval)) + " -i pipe:0" +
                           (form == VideoForm::gif ? gif_options : mp4_options) + " -y /proc/self/fd/" +
                           std::to_string(result_in_child));
  return {std::istream_iterator<std::string>(words), {}};
}

/// Without a name, removed when it is closed.
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string content_of(std::FILE* file) {
  std::fseek(file, 0, SEEK_END);
  std::string bytes(static_cast<std::size_t>(std::max(0L, std::ftell(file))), '\0');
  std::rewind(file);
  return std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size() ? bytes : "";
}

std::string first_line(const std::string& text) { return text.substr(0, std::min(text.find('\n'), std::size_t{200})); }

}  // namespace

Video video_of(const FilmFrames& frames, double interval, VideoForm form) {
  const File pictures(std::tmpfile(), std::fclose), result(std::tmpfile(), std::fclose),
      said(std::tmpfile(), std::fclose);
  bool has_room = pictures && result && said;
  for (const std::shared_ptr<const Pixels>& frame : frames) {
    has_room = has_room && std::fwrite(frame->rgb.data(), frame->rgb.size(), 1, pictures.get()) == 1;
  }
  if (!has_room || std::fflush(pictures.get()) != 0) return {"", "the system had no room left for it."};
  std::rewind(pictures.get());
  const pid_t child =
      start_program(arguments_for(*frames.front(), interval, form), {{fileno(pictures.get()), STDIN_FILENO},
                                                                     {fileno(said.get()), STDERR_FILENO},
                                                                     {fileno(result.get()), result_in_child}});
  if (child < 0) return {};
  const std::optional<bool> is_well = ends_well(child, patience);
  if (!is_well) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  if (is_well != true) return {"", "ffmpeg failed: " + first_line(content_of(said.get()))};
  return {content_of(result.get()), ""};
}

}  // namespace afterglow
