// Sends the pictures to ffmpeg through a socket; the file and ffmpeg's messages return in memory.
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <iterator>
#include <sstream>

#include "app/window/film/film_files.h"
#include "core/io/child_process.h"
#include "core/io/temporary_file.h"

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

/// Returns when all is sent, or the reader is gone or does not read for too long.
bool send_all(int socket, const std::vector<unsigned char>& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t now = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now < 0) return false;
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

/// Whether the child ended by itself with success; a child that does not end is killed.
bool has_ended_well(pid_t child) {
  if (const std::optional<bool> result = ends_well(child, patience)) return *result;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return false;
}

std::string content_of(int file) {
  std::string bytes(static_cast<std::size_t>(std::max<off_t>(0, lseek(file, 0, SEEK_END))), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t now = pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (now <= 0) return "";
    done += static_cast<std::size_t>(now);
  }
  return bytes;
}

std::string first_line(const std::string& text) { return text.substr(0, std::min(text.find('\n'), std::size_t{200})); }

}  // namespace

Video video_of(const FilmFrames& frames, double interval, VideoForm form) {
  // Close-on-exec, so that the child inherits only its own ends and sees the end of the pictures.
  const Descriptor result(memfd_create("film", MFD_CLOEXEC)), said(memfd_create("ffmpeg", MFD_CLOEXEC));
  int ends[2] = {-1, -1};
  const bool has_pair = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
  Descriptor ours(ends[0]), theirs(ends[1]);
  if (!result.valid() || !said.valid() || !has_pair) return {"", "the system had no memory left for it."};
  const timeval limit{patience.count(), 0};
  setsockopt(ours.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const pid_t child =
      start_program(arguments_for(*frames.front(), interval, form),
                    {{theirs.get(), STDIN_FILENO}, {said.get(), STDERR_FILENO}, {result.get(), result_in_child}});
  if (child < 0) return {};
  theirs.close();
  for (const std::shared_ptr<const Pixels>& frame : frames) {
    if (!send_all(ours.get(), frame->rgb)) break;
  }
  ours.close();
  if (!has_ended_well(child)) return {"", "ffmpeg failed: " + first_line(content_of(said.get()))};
  return {content_of(result.get()), ""};
}

}  // namespace afterglow
