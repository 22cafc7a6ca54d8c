// A film as an animated GIF, which every browser and slide program plays.
#pragma once
#include <string>

#include "app/window/film/film.h"

namespace afterglow {

/// Whether this build can write GIFs.
bool has_gif();
/// `interval` is the time of one frame, in seconds. All frames share one table of colours; each frame stores only the
/// rectangle that changed. The GIF repeats for ever. Throws Error(failure).
std::string gif_of(const FilmFrames& frames, double interval);

}  // namespace afterglow
