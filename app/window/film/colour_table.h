// At most 255 colours for all pictures of a film, so chosen that flat colours stay exact and gradients do not band.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "app/window/film/film.h"

namespace afterglow {

struct ColourTable {
  static constexpr std::size_t most = 255;  ///< one of a GIF's 256 says "as before"

  /// What stands for a colour: the nearest of the table; for one that lies between two, in so many of 64 places of a
  /// fixed pattern the other one. The pattern does not move, so what stays the same from frame to frame stays the same.
  struct Mix {
    std::uint8_t near = 0, far = 0, places_of_far = 0;
  };

  std::vector<std::uint8_t> rgb;                 ///< three numbers for each colour
  std::unordered_map<std::uint32_t, Mix> mixes;  ///< of every colour of the film

  std::vector<std::uint8_t> indices_of(const Pixels& pixels) const;
};

ColourTable colour_table_of(const FilmFrames& frames);

}  // namespace afterglow
