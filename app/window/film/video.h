// A film as a GIF or an MP4, made by ffmpeg if that is installed.
#pragma once
#include <string>

#include "app/window/film/film.h"

namespace afterglow {

enum class VideoForm { gif, mp4 };

struct Video {
  std::string bytes;    ///< the file; empty after a failure
  std::string problem;  ///< reason of a failure; also empty if ffmpeg is not installed
};

/// Runs ffmpeg as a child process and waits for it, at most a minute. `interval` is the time of one frame, in seconds.
Video video_of(const FilmFrames& frames, double interval, VideoForm form);

}  // namespace afterglow
