// Colours keep their promises: exact values, even lightness, second cues.
#include "core/figure/palette.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace afterglow {
namespace {

double luminance(Color c) {
  const auto linear = [](int v) { return std::pow(v / 255.0, 2.2); };
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}

double contrast(Color a, Color b) {
  const double high = std::max(luminance(a), luminance(b)), low = std::min(luminance(a), luminance(b));
  return (high + 0.05) / (low + 0.05);
}

TEST(Palette, HasTheSeriesColours) {
  EXPECT_EQ(dark_theme().series[0], rgb(0x5fe3c0));
  EXPECT_EQ(light_theme().series[5], rgb(0x6b7300));
  EXPECT_EQ(ink_color(dark_theme(), Ink(8)), rgb(0x7aa7ff));
  EXPECT_EQ(ink_color(light_theme(), Role::failure), light_theme().failure);
}

TEST(Palette, StandsOutFromItsGround) {
  for (const Theme* theme : {&dark_theme(), &light_theme(), &projector_theme()}) {
    for (const Color color : theme->series) EXPECT_GT(contrast(color, theme->panel), 4.5) << theme->name;
    EXPECT_GT(contrast(theme->text, theme->panel), 12) << theme->name;
    EXPECT_GT(contrast(theme->dim, theme->panel), 4.5) << theme->name;
  }
}

TEST(Palette, GivesEveryColourItsOwnDashAndMarker) {
  std::set<Dash> dashes;
  std::set<Marker> markers;
  for (int i = 0; i < palette_size; ++i) {
    dashes.insert(ink_dash(i));
    markers.insert(ink_marker(i));
  }
  EXPECT_EQ(dashes.size(), static_cast<std::size_t>(palette_size));
  EXPECT_EQ(markers.size(), static_cast<std::size_t>(palette_size));
}

TEST(ColourMaps, GrowEvenly) {
  for (const Theme* theme : {&dark_theme(), &light_theme(), &projector_theme()}) {
    const double sign = theme->is_dark ? 1 : -1;
    for (int i = 1; i <= 32; ++i) {
      const double step = luminance(map_color(*theme, ColourMap::sequential, i / 32.0)) -
                          luminance(map_color(*theme, ColourMap::sequential, (i - 1) / 32.0));
      EXPECT_GT(sign * step, 0) << theme->name << " at " << i;
    }
  }
}

TEST(ColourMaps, DivergeFromNeutral) {
  for (const Theme* theme : {&dark_theme(), &light_theme()}) {
    EXPECT_EQ(map_color(*theme, ColourMap::diverging, 0.5), theme->raised);
    const Color low = map_color(*theme, ColourMap::diverging, 0), high = map_color(*theme, ColourMap::diverging, 1);
    EXPECT_GT(low.b, low.r);
    EXPECT_GT(high.r, high.b);
    EXPECT_LT(contrast(low, high), 1.6);  // neither side looks stronger
  }
}

TEST(ColourMaps, ClampTheirArgument) {
  EXPECT_EQ(map_color(light_theme(), ColourMap::sequential, -3), map_color(light_theme(), ColourMap::sequential, 0));
  EXPECT_EQ(map_color(light_theme(), ColourMap::sequential, std::nan("")),
            map_color(light_theme(), ColourMap::sequential, 0));
  EXPECT_EQ(map_color(light_theme(), ColourMap::sequential, 7), map_color(light_theme(), ColourMap::sequential, 1));
}

TEST(Mixed, HitsItsEnds) {
  for (const Color c : {rgb(0x000000), rgb(0xffffff), rgb(0x123456), rgb(0xfe01c3)}) {
    EXPECT_EQ(mixed(c, rgb(0x777777), 0), c);
    EXPECT_EQ(mixed(rgb(0x777777), c, 1), c);
  }
}

}  // namespace
}  // namespace afterglow
