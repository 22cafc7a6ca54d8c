// At most 255 colours for all pictures of a film, chosen so that flat colours stay exact and gradients show no bands.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "app/window/film/film.h"

namespace afterglow {

struct ColourTable {
  static constexpr std::size_t most = 255;  ///< one of a GIF's 256 entries means "unchanged"

  /// The replacement of a colour: the nearest entry; a colour between two entries takes the other one in a number of
  /// the 64 places of a fixed pattern. The pattern does not move, so pixels that stay the same do not flicker.
  struct Mix {
    std::uint8_t near = 0, far = 0, places_of_far = 0;
  };

  std::vector<std::uint8_t> rgb;                 ///< three numbers for each colour
  std::unordered_map<std::uint32_t, Mix> mixes;  ///< entry of every colour of the film

  std::vector<std::uint8_t> indices_of(const Pixels& pixels) const;
};

ColourTable colour_table_of(const FilmFrames& frames);

}  // namespace afterglow
