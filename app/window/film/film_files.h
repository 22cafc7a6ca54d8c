// The pictures of a film as files.
#pragma once
#include <filesystem>
#include <string>

#include "app/window/film/film.h"

namespace afterglow {

enum class FilmForm {
  film,     ///< a GIF and an MP4 by ffmpeg; numbered pictures where that is not installed or fails
  pictures  ///< "001.png", "002.png" and so on in a new folder
};

/// "film" or "pictures"; throws Error for another word.
FilmForm film_form_of(const std::string& word);

/// Writes "film.gif" and so on into `folder`, each completely or not at all and never over an existing file, and
/// returns the sentence that names them. May take seconds. Throws Error.
std::string write_film(const FilmFrames& frames, const std::filesystem::path& folder, FilmForm form);

enum class VideoForm { gif, mp4 };

struct Video {
  std::string bytes;    ///< the file; empty after a failure
  std::string problem;  ///< reason of a failure; also empty if ffmpeg is not installed
};

/// Runs ffmpeg as a child process and waits for it, at most a minute. `interval` is the time of one frame, in seconds.
Video video_of(const FilmFrames& frames, double interval, VideoForm form);

}  // namespace afterglow
