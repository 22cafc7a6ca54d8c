// Replaces gif.cpp in builds without the library cgif.
#include "app/window/film/gif.h"
#include "core/io/error.h"

namespace afterglow {

bool has_gif() { return false; }

std::string gif_of(const FilmFrames&, double) {
  throw Error(ExitCode::failure, "this build makes no GIFs: it was built without the library cgif");
}

}  // namespace afterglow
