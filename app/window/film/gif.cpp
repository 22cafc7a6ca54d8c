// Writes through the library cgif, into memory.
#include "app/window/film/gif.h"

#include <cgif.h>

#include <cmath>

#include "app/window/film/colour_table.h"
#include "core/io/error.h"

namespace afterglow {

namespace {

int append(void* bytes, const std::uint8_t* data, const std::size_t size) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), size);
  return 0;
}

void require(bool is_done) {
  if (!is_done) throw Error(ExitCode::failure, "the film could not be compressed as a GIF");
}

/// The number of equal frames in a row from `first` on.
std::size_t run_length(const FilmFrames& frames, std::size_t first) {
  std::size_t end = first + 1;
  while (end < frames.size() && frames[end] == frames[first]) ++end;
  return end - first;
}

}  // namespace

bool has_gif() { return true; }

std::string gif_of(const FilmFrames& frames, double interval) {
  ColourTable table = colour_table_of(frames);
  std::string bytes;
  CGIF_Config film{};
  film.attrFlags = CGIF_ATTR_IS_ANIMATED;
  film.width = static_cast<std::uint16_t>(frames.front()->width);
  film.height = static_cast<std::uint16_t>(frames.front()->height);
  film.pGlobalPalette = table.rgb.data();
  film.numGlobalPaletteEntries = static_cast<std::uint16_t>(table.rgb.size() / 3);
  film.numLoops = CGIF_INFINITE_LOOP;
  film.pWriteFn = append;
  film.pContext = &bytes;
  CGIF* gif = cgif_newgif(&film);
  require(gif != nullptr);
  bool is_written = true;
  std::size_t length = 0;
  for (std::size_t i = 0; i < frames.size() && is_written; i += length) {
    length = run_length(frames, i);
    std::vector<std::uint8_t> indices = table.indices_of(*frames[i]);
    CGIF_FrameConfig frame{};
    frame.pImageData = indices.data();
    frame.genFlags = CGIF_FRAME_GEN_USE_TRANSPARENCY | CGIF_FRAME_GEN_USE_DIFF_WINDOW;
    frame.delay = static_cast<std::uint16_t>(std::lround(100 * interval * static_cast<double>(length)));
    is_written = cgif_addframe(gif, &frame) == CGIF_OK;
  }
  const bool is_closed = cgif_close(gif) == CGIF_OK;
  require(is_written && is_closed);
  return bytes;
}

}  // namespace afterglow
