// The last ten seconds of the window: which pictures are kept, at what pace they come out, and what the files hold.
#include "app/window/film/film.h"

#include <gmock/gmock.h>
#include <stb_image.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>

#include "app/window/film/film_files.h"
#include "core/io/error.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

using testing::HasSubstr;
using testing::Not;

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
  const FilmFrames frames = film.frames(2);
  ASSERT_EQ(frames.size(), 11u);
  EXPECT_EQ(frames[4]->rgb[0], 1);
  EXPECT_EQ(frames[5]->rgb[0], 2);
  EXPECT_EQ(frames[10]->rgb[0], 2);
}

TEST(Film, GoesBackTenSecondsAndNoFurther) {
  Film film;
  film.keep(true);
  for (int second = 0; second <= 30; ++second) film.add(second, grey(static_cast<unsigned char>(second)));
  const FilmFrames frames = film.frames(30);
  ASSERT_EQ(frames.size(), 51u);
  EXPECT_EQ(frames.front()->rgb[0], 20);
  EXPECT_EQ(frames.back()->rgb[0], 30);
}

TEST(Film, TakesFewerPicturesWhereOneIsDear) {
  Film film(1);
  film.keep(true);
  film.add(0, grey(1), 0.02);  // a second's share of one processor
  EXPECT_FALSE(film.wants(0.9));
  EXPECT_TRUE(film.wants(1.1));
  Film wide(16);
  wide.keep(true);
  wide.add(0, grey(1), 0.02);
  EXPECT_TRUE(wide.wants(0.21));
}

TEST(Film, KeepsOnePictureOfAWindowThatRests) {
  Film film;
  film.keep(true);
  for (int i = 0; i < 50; ++i) film.add(0.2 * i, grey(7));
  const FilmFrames frames = film.frames(9.8);
  EXPECT_EQ(std::set(frames.begin(), frames.end()).size(), 1u);
}

TEST(Film, BeginsAnewWhenTheWindowChangesItsSize) {
  Film film;
  film.keep(true);
  film.add(0, grey(1));
  film.add(1, {1, 1, {5, 5, 5}});
  const FilmFrames frames = film.frames(1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0]->width, 1);
}

constexpr int width = 160, height = 120;

/// A dark page with a gradient all over, flat parts, a dot of a rare colour, and a bar that grows with the time.
Pixels page(int time) {
  Pixels pixels{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      std::array<int, 3> c{16 + x / 8, 18 + y / 6, 30 + (x + y) / 10};
      if (y < 20) c = {13, 17, 23};
      if (y > 100 && x < 10 + 10 * time) c = {88, 166, 255};
      if (std::hypot(x - 120, y - 60) < 3) c = {255, 140, 60};
      for (const int part : c) pixels.rgb.push_back(static_cast<unsigned char>(part));
    }
  }
  return pixels;
}

FilmFrames pages(std::initializer_list<int> times) {
  FilmFrames frames;
  for (const int time : times) {
    const bool stays = !frames.empty() && frames.back()->rgb == page(time).rgb;
    frames.push_back(stays ? frames.back() : std::make_shared<const Pixels>(page(time)));
  }
  return frames;
}

struct Decoded {
  int width = 0, height = 0, frames = 0;
  std::vector<int> milliseconds;
  std::vector<unsigned char> rgb;
};

Decoded decoded(const std::string& gif) {
  Decoded film;
  int* delays = nullptr;
  int parts = 0;
  stbi_uc* pixels =
      stbi_load_gif_from_memory(reinterpret_cast<const stbi_uc*>(gif.data()), static_cast<int>(gif.size()), &delays,
                                &film.width, &film.height, &film.frames, &parts, 3);
  if (!pixels) return film;
  film.milliseconds.assign(delays, delays + film.frames);
  film.rgb.assign(pixels, pixels + static_cast<std::ptrdiff_t>(film.width) * film.height * film.frames * 3);
  free(pixels);
  free(delays);
  return film;
}

TEST(Video, AGifHoldsThePicturesAtTheirTimes) {
  if (std::system("command -v ffmpeg >/dev/null 2>&1") != 0) GTEST_SKIP() << "ffmpeg is not installed";
  const FilmFrames frames = pages({1, 2, 3});
  const Video gif = video_of(frames, 0.2, VideoForm::gif);
  const Decoded film = decoded(gif.bytes);
  EXPECT_EQ(film.width, width) << gif.problem;
  EXPECT_EQ(film.height, height);
  ASSERT_EQ(film.frames, 3);
  EXPECT_THAT(film.milliseconds, testing::Each(200));
  const std::size_t size = frames[0]->rgb.size();
  for (std::size_t i = 0; i < 3; ++i) {
    double squares = 0;
    for (std::size_t at = 0; at < size; ++at) {
      const double off = static_cast<double>(film.rgb[i * size + at]) - frames[i]->rgb[at];
      squares += off * off;
    }
    EXPECT_LT(std::sqrt(squares / static_cast<double>(size)), 3.0) << "frame " << i;
  }
}

class FilmFiles : public TemporaryFolder {
 protected:
  /// Makes this folder all that is searched for programs.
  void search_only(const std::filesystem::path& folder) {
    path_before_ = getenv("PATH");
    setenv("PATH", folder.c_str(), 1);
  }
  void TearDown() override {
    if (!path_before_.empty()) setenv("PATH", path_before_.c_str(), 1);
    TemporaryFolder::TearDown();
  }
  void make_program(const std::string& text) {
    std::filesystem::create_directory(file("bin"));
    std::ofstream(file("bin") / "ffmpeg") << "#!/bin/sh\n" << text;
    std::filesystem::permissions(file("bin") / "ffmpeg", std::filesystem::perms(0755));
    search_only(file("bin").string() + ":" + getenv("PATH"));
  }

 private:
  std::string path_before_;
};

TEST_F(FilmFiles, PicturesLieInAFolderOfTheirOwn) {
  const std::string first = write_film(pages({1, 2}), file(""), FilmForm::pictures);
  const std::string second = write_film(pages({1, 2}), file(""), FilmForm::pictures);
  EXPECT_THAT(second, HasSubstr(file("film_2").string())) << "nothing is overwritten";
  EXPECT_EQ(content_of(file("film") / "002.png").substr(1, 3), "PNG");
  EXPECT_FALSE(std::filesystem::exists(file("film") / "003.png"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file("")), {}), 2) << "nothing else is left";
}

TEST_F(FilmFiles, MakeTheirFolder) {
  write_film(pages({1}), file("Documents/films"), FilmForm::pictures);
  EXPECT_TRUE(std::filesystem::exists(file("Documents/films/film/001.png")));
}

TEST_F(FilmFiles, AreNeverWrittenOverOthers) {
  make_program("echo made > /proc/self/fd/3; cat > /dev/null\n");
  std::ofstream(file("film.gif")) << "mine";
  EXPECT_THAT(write_film(pages({1, 2}), file(""), FilmForm::film), HasSubstr("film_2.gif"));
  EXPECT_EQ(content_of(file("film.gif")), "mine");
  EXPECT_EQ(content_of(file("film_2.gif")), "made\n");
}

TEST_F(FilmFiles, ArePicturesWithoutFfmpeg) {
  search_only(file("nothing"));
  EXPECT_THAT(write_film(pages({1, 2}), file(""), FilmForm::film), HasSubstr("Install ffmpeg"));
  EXPECT_TRUE(std::filesystem::exists(file("film/002.png")));
  EXPECT_FALSE(std::filesystem::exists(file("film.gif")));
}

TEST_F(FilmFiles, TheVideoIsWhatFfmpegMakesOfThePictures) {
  make_program("cat > /proc/self/fd/3\n");
  const FilmFrames frames = pages({1, 2, 2});
  const Video video = video_of(frames, 0.2, VideoForm::mp4);
  ASSERT_EQ(video.bytes.size(), 3 * frames[0]->rgb.size()) << video.problem;
  EXPECT_TRUE(std::equal(frames[1]->rgb.begin(), frames[1]->rgb.end(), video.bytes.begin() + 1 * width * height * 3,
                         [](unsigned char a, char b) { return a == static_cast<unsigned char>(b); }));
}

TEST_F(FilmFiles, SaysWhyThereIsNoVideo) {
  make_program("echo 'Unknown encoder' >&2; exit 1\n");
  const std::string said = write_film(pages({1, 2}), file(""), FilmForm::film);
  EXPECT_THAT(said, HasSubstr("There is no GIF: ffmpeg failed: Unknown encoder"));
  EXPECT_TRUE(std::filesystem::exists(file("film/001.png")));
}

TEST_F(FilmFiles, ThoseOfFfmpegArePlayedByIt) {
  if (std::system("command -v ffprobe >/dev/null 2>&1") != 0) GTEST_SKIP() << "ffmpeg is not installed";
  FilmFrames frames = pages({1, 2, 3, 3, 4, 5});
  EXPECT_THAT(write_film(frames, file(""), FilmForm::film), HasSubstr("film.mp4"));
  const std::string command =
      "ffprobe -v error -count_frames -show_entries stream=width,height,nb_read_frames,duration "
      "-of csv=p=0 " +
      file("film.mp4").string() + " > " + file("probe").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(content_of(file("probe")), testing::AllOf(HasSubstr("160,120"), HasSubstr("1.2"), HasSubstr(",6")));
}

TEST(FilmForm, IsFilmOrPictures) {
  EXPECT_EQ(film_form_of("pictures"), FilmForm::pictures);
  EXPECT_THROW(film_form_of("webm"), Error);
}

}  // namespace
}  // namespace afterglow
