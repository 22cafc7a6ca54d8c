// A film as an MP4, made by ffmpeg where that is installed.
#pragma once
#include <string>

#include "app/window/film/film.h"

namespace afterglow {

struct Video {
  std::string bytes;    ///< the file; empty where there is none
  std::string problem;  ///< why; empty as well where ffmpeg is not installed
};

/// Runs ffmpeg as a child process and waits for it, a minute at most. `interval` is the time of one frame, in seconds.
Video video_of(const FilmFrames& frames, double interval);

}  // namespace afterglow
