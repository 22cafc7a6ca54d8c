// A film as an animated GIF, which every browser and slide program plays.
#pragma once
#include <string>

#include "app/window/film/film.h"

namespace afterglow {

/// Whether this build can write GIFs.
bool has_gif();
/// `interval` is the time of one frame, in seconds. One table of colours for all frames; of each frame only the
/// rectangle that changed. Runs without end. Throws Error(failure).
std::string gif_of(const FilmFrames& frames, double interval);

}  // namespace afterglow
