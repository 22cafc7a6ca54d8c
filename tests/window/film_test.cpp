// The last ten seconds of the window: which pictures are kept, at what pace they come out, and where they go.
#include "app/window/film.h"

#include <gtest/gtest.h>

#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

Pixels grey(unsigned char value) { return {2, 1, std::vector<unsigned char>(6, value)}; }

TEST(Film, KeepsNothingUntilItIsAsked) {
  Film film;
  EXPECT_FALSE(film.wants(0));
  EXPECT_TRUE(film.frames(5).empty());
  film.keep(true);
  EXPECT_TRUE(film.wants(0));
  film.add(0, grey(1));
  EXPECT_FALSE(film.wants(Film::interval / 2)) << "five a second are enough";
  EXPECT_TRUE(film.wants(Film::interval));
  film.keep(false);
  EXPECT_TRUE(film.frames(1).empty());
}

TEST(Film, ComesOutAtAnEvenPaceWhateverWasDrawn) {
  Film film;
  film.keep(true);
  film.add(0, grey(1));
  film.add(1, grey(2));  // nothing changed for a second
  const std::vector<Pixels> frames = film.frames(2);
  ASSERT_EQ(frames.size(), 11u);
  EXPECT_EQ(frames[4].rgb[0], 1);
  EXPECT_EQ(frames[5].rgb[0], 2);
  EXPECT_EQ(frames[10].rgb[0], 2);
}

TEST(Film, GoesBackTenSecondsAndNoFurther) {
  Film film;
  film.keep(true);
  for (int second = 0; second <= 30; ++second) film.add(second, grey(static_cast<unsigned char>(second)));
  const std::vector<Pixels> frames = film.frames(30);
  ASSERT_EQ(frames.size(), 51u);
  EXPECT_EQ(frames.front().rgb[0], 20);
  EXPECT_EQ(frames.back().rgb[0], 30);
}

class FilmFiles : public TemporaryFolder {};

TEST_F(FilmFiles, LieInAFolderOfTheirOwn) {
  const std::vector<Pixels> frames{grey(1), grey(2)};
  const std::filesystem::path first = write_film(frames, file("film")), second = write_film(frames, file("film"));
  EXPECT_NE(first, second) << "nothing is overwritten";
  EXPECT_EQ(content_of(second / "002.png").substr(1, 3), "PNG");
  EXPECT_FALSE(std::filesystem::exists(second / "003.png"));
}

}  // namespace
}  // namespace afterglow
