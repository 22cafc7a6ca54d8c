// Splits boxes of colours where that reduces the error most (Heckbert's median cut, measured by the variance); then
// assigns each colour to its nearest entry, and moves each entry to the mean of its colours (Lloyd).
#include "app/window/film/colour_table.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace afterglow {

namespace {

using Rgb = Eigen::Vector3d;

struct WeightedColour {
  std::uint32_t key = 0;
  Rgb rgb;
  double weight = 0;
};

constexpr std::uint32_t key_of(const unsigned char* rgb) {
  return static_cast<std::uint32_t>(rgb[0]) << 16 | static_cast<std::uint32_t>(rgb[1]) << 8 | rgb[2];
}

/// Small things get more weight than their area, so that a dot of a rare colour does not take its neighbours' colour.
double weight_of(std::uint64_t pixels) { return std::pow(static_cast<double>(pixels), 0.75); }

std::vector<WeightedColour> colours_of(const FilmFrames& frames) {
  std::unordered_map<std::uint32_t, std::uint64_t> counts;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (i > 0 && frames[i] == frames[i - 1]) continue;
    const std::vector<unsigned char>& rgb = frames[i]->rgb;
    for (std::size_t at = 0; at + 2 < rgb.size();) {
      const std::uint32_t key = key_of(&rgb[at]);
      std::size_t end = at + 3;  // most pixels have the colour of their neighbour
      while (end + 2 < rgb.size() && key_of(&rgb[end]) == key) end += 3;
      counts[key] += (end - at) / 3;
      at = end;
    }
  }
  std::vector<WeightedColour> colours;
  for (const auto& [key, count] : counts)
    colours.push_back({key, Rgb(key >> 16, key >> 8 & 255, key & 255), weight_of(count)});
  // Sorted, because the order of a hash table is arbitrary.
  std::ranges::sort(colours, {}, &WeightedColour::key);
  return colours;
}

struct Sums {
  double weight = 0, squares = 0;
  Rgb first = Rgb::Zero();
  void add(const WeightedColour& colour) {
    weight += colour.weight;
    first += colour.weight * colour.rgb;
    squares += colour.weight * colour.rgb.squaredNorm();
  }
  Sums without(const Sums& part) const { return {weight - part.weight, squares - part.squares, first - part.first}; }
  Rgb mean() const { return first / weight; }
  double error() const { return weight > 0 ? squares - first.squaredNorm() / weight : 0; }
};

struct Box {
  std::span<WeightedColour> colours;
  Sums sums;
  explicit Box(std::span<WeightedColour> all) : colours(all) {
    for (const WeightedColour& colour : all) sums.add(colour);
  }
};

/// The number of the box's colours, sorted along its longest axis, in the first part.
std::size_t best_cut(Box& box) {
  const Rgb mean = box.sums.mean();
  Rgb spread = Rgb::Zero();
  for (const WeightedColour& colour : box.colours) spread += colour.weight * (colour.rgb - mean).cwiseAbs2();
  Eigen::Index axis = 0;
  spread.maxCoeff(&axis);
  std::ranges::stable_sort(box.colours, {}, [&](const WeightedColour& colour) { return colour.rgb[axis]; });
  Sums left;
  std::size_t cut = 1;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i + 1 < box.colours.size(); ++i) {
    left.add(box.colours[i]);
    const double error = left.error() + box.sums.without(left).error();
    if (error < least) {
      least = error;
      cut = i + 1;
    }
  }
  return cut;
}

std::vector<Rgb> divided(std::vector<WeightedColour>& colours) {
  std::vector<Box> boxes{Box(colours)};
  while (boxes.size() < std::min(ColourTable::most, colours.size())) {
    const auto worst = std::ranges::max_element(boxes, {}, [](const Box& box) {
      return box.colours.size() > 1 ? box.sums.error() : -std::numeric_limits<double>::infinity();
    });
    const std::size_t cut = best_cut(*worst);
    const Box rest(worst->colours.subspan(cut));
    *worst = Box(worst->colours.first(cut));
    boxes.push_back(rest);
  }
  std::vector<Rgb> means;
  for (const Box& box : boxes) means.push_back(box.sums.mean());
  return means;
}

std::size_t nearest(const std::vector<Rgb>& table, const Rgb& colour) {
  const auto distance = [&](const Rgb& entry) { return (entry - colour).squaredNorm(); };
  return static_cast<std::size_t>(std::ranges::min_element(table, {}, distance) - table.begin());
}

void move_to_the_middle(std::vector<Rgb>& table, const std::vector<WeightedColour>& colours) {
  std::vector<Sums> own(table.size());
  for (const WeightedColour& colour : colours) own[nearest(table, colour.rgb)].add(colour);
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (own[i].weight > 0) table[i] = own[i].mean();
  }
}

/// A colour whose nearest entry differs by less than `exact` levels is replaced by it; another one is a mixture of it
/// and of the entry on its other side.
ColourTable::Mix mix_of(const std::vector<Rgb>& table, const Rgb& colour) {
  constexpr double exact = 1.0, places = 64;
  const std::size_t near = nearest(table, colour);
  const Rgb& at = table[near];
  const auto first = static_cast<std::uint8_t>(near);
  if ((at - colour).norm() <= exact) return {first, first, 0};
  const std::size_t far = nearest(table, 2 * colour - at);
  const Rgb way = table[far] - at;
  const double length = way.squaredNorm(),
               part = length > 0 ? std::clamp((colour - at).dot(way) / length, 0.0, 1.0) : 0;
  return {first, static_cast<std::uint8_t>(far), static_cast<std::uint8_t>(std::lround(places * part))};
}

/// Bayer's pattern of 8 by 8 places: filled in this order, any number of them is spread evenly.
constexpr auto pattern = [] {
  std::array<std::uint8_t, 64> places{};
  for (unsigned y = 0; y < 8; ++y) {
    for (unsigned x = 0; x < 8; ++x) {
      unsigned place = 0;
      for (unsigned bit = 0; bit < 3; ++bit)
        place |= ((x ^ y) >> bit & 1) << (5 - 2 * bit) | (y >> bit & 1) << (4 - 2 * bit);
      places[8 * y + x] = static_cast<std::uint8_t>(place);
    }
  }
  return places;
}();

}  // namespace

ColourTable colour_table_of(const FilmFrames& frames) {
  constexpr int rounds = 2;
  std::vector<WeightedColour> colours = colours_of(frames);
  std::vector<Rgb> means = divided(colours);
  for (int round = 0; round < rounds; ++round) move_to_the_middle(means, colours);
  ColourTable table;
  for (Rgb& mean : means) {
    mean = mean.array().round();
    for (const double part : mean) table.rgb.push_back(static_cast<std::uint8_t>(part));
  }
  for (const WeightedColour& colour : colours) table.mixes.emplace(colour.key, mix_of(means, colour.rgb));
  return table;
}

std::vector<std::uint8_t> ColourTable::indices_of(const Pixels& pixels) const {
  const auto width = static_cast<std::size_t>(pixels.width);
  std::vector<std::uint8_t> indices(width * static_cast<std::size_t>(pixels.height));
  std::uint32_t key = key_of(pixels.rgb.data());
  Mix mix = mixes.at(key);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint32_t next = key_of(&pixels.rgb[3 * i]);
    if (next != key) mix = mixes.at(key = next);
    const std::size_t place = (i / width) % 8 * 8 + i % width % 8;
    indices[i] = pattern[place] < mix.places_of_far ? mix.far : mix.near;
  }
  return indices;
}

}  // namespace afterglow
