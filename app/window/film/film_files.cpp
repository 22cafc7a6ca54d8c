// Writes pictures to files; the sentence reports each kind.
#include "app/window/film/film_files.h"

#include <stdlib.h>

#include <cstdio>

#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

constexpr const char* stem = "film";

/// A folder under a temporary name, removed with its files unless it got its final name.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent) : path_(parent / ".afterglow_film_XXXXXX") {
    std::string name = path_.string();
    if (!mkdtemp(name.data())) throw BadInput(parent.string() + ": cannot create a folder for the pictures here");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

  /// Gives the folder an unused name, and returns it.
  std::filesystem::path name_it(const std::filesystem::path& wanted) {
    const std::filesystem::path name = free_path(wanted);
    std::error_code failed;
    std::filesystem::permissions(path_, std::filesystem::perms(0755), failed);
    std::filesystem::rename(path_, name, failed);
    if (failed) throw BadInput(name.string() + ": cannot create this folder for the pictures");
    path_.clear();
    return name;
  }

 private:
  std::filesystem::path path_;
};

std::filesystem::path write_pictures(const FilmFrames& frames, const std::filesystem::path& folder) {
  TemporaryFolder made(folder);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    char file[32];
    std::snprintf(file, sizeof file, "%03zu.png", i + 1);
    write_file_atomically(made.path() / file, std::string_view(png_of(*frames[i])));
  }
  return made.name_it(folder / stem);
}

/// "film.gif (1.3 MB)"
std::string write_named(const std::filesystem::path& folder, const char* extension, const std::string& bytes) {
  const auto path = write_file_atomically(folder / (std::string(stem) + extension), bytes, Existing::keep);
  char size[32];
  std::snprintf(size, sizeof size, " (%.1f MB)", std::max(0.1, 1e-6 * static_cast<double>(bytes.size())));
  return path.string() + size;
}

}  // namespace

FilmForm film_form_of(const std::string& word) {
  if (word == "film") return FilmForm::film;
  if (word == "pictures") return FilmForm::pictures;
  throw UsageError("\"as\" is \"film\" or \"pictures\", not \"" + word + "\"");
}

std::string write_film(const FilmFrames& frames, const std::filesystem::path& folder, FilmForm form) {
  if (frames.empty()) throw Error(ExitCode::failure, "there is no picture to save yet");
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);  // if this fails, writing reports it
  const Video gif = form == FilmForm::film ? video_of(frames, Film::interval, VideoForm::gif) : Video();
  if (gif.bytes.empty()) {
    const std::string said =
        "The last ten seconds are in " + write_pictures(frames, folder).string() + ", five pictures per second";
    if (form == FilmForm::pictures) return said + ".";
    return said +
           (gif.problem.empty() ? ". Install ffmpeg for a GIF and an MP4." : ". There is no GIF: " + gif.problem);
  }
  const std::string said = "The last ten seconds are in " + write_named(folder, ".gif", gif.bytes);
  const Video video = video_of(frames, Film::interval, VideoForm::mp4);
  if (!video.bytes.empty()) return said + " and " + write_named(folder, ".mp4", video.bytes) + ".";
  return said + ". There is no MP4: " + video.problem;
}

}  // namespace afterglow
