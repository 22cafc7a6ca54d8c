// Files: names, formats, recipes that come back, damage that is reported.
#include "core/figure/files/figure_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "core/figure/files/carried_recipe.h"
#include "core/figure/files/csv_writer.h"
#include "core/figure/files/page.h"
#include "core/io/atomic_file.h"
#include "core/io/byte_parts.h"
#include "core/io/error.h"
#include "tests/core/figure/example_figures.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FigureFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = build_folder() / ("figure_files_test_" + std::to_string(::getpid()) + "_" +
                                ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

std::vector<FigureFormat> pictures() {
  if (!has_page_writer()) return {FigureFormat::svg};
  return {FigureFormat::svg, FigureFormat::pdf, FigureFormat::png};
}

std::string contents(const fs::path& path) { return read_file(path, 1 << 28); }

template <typename Action>
ExitCode code_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::done;
}

TEST_F(FigureFiles, CarryTheirRecipe) {
  for (const std::string& recipe :
       {std::string("{}"), std::string("{\"a\":\"<&>\\\"'\\r\\n ·λ·\"}"), std::string("line\r\nline\ttab"),
        std::string("\0\1\2\xff broken bytes", 18), std::string(4096, 'x')}) {
    Figure figure = tail_figure();
    figure.recipe = recipe;
    std::vector<FigureFormat> formats = pictures();
    formats.push_back(FigureFormat::csv);
    for (const fs::path& path : write_figure(figure, folder_ / "tail", formats))
      EXPECT_EQ(read_recipe(path), recipe) << path;
  }
}

TEST_F(FigureFiles, WithoutRecipeSaySo) {
  Figure figure = tail_figure();
  figure.recipe.clear();
  for (const fs::path& path : write_figure(figure, folder_ / "tail", pictures()))
    EXPECT_EQ(read_recipe(path), std::nullopt) << path;
}

TEST_F(FigureFiles, TablesCarryTheRecipeInALastLineThatIsAComment) {
  const Figure figure = training_figure();
  const fs::path path = write_figure(figure, folder_ / "training", {FigureFormat::csv}).front();
  const std::string whole = contents(path), table = csv_text(figure);
  ASSERT_TRUE(whole.starts_with(table));
  const std::string comment = whole.substr(table.size());
  EXPECT_TRUE(comment.starts_with("# afterglow.recipe "));
  EXPECT_EQ(comment.find_first_of(",\""), std::string::npos) << "one field for readers that know no comments";
  EXPECT_EQ(comment.find('\n'), comment.size() - 1);
  EXPECT_EQ(recipe_in(table, "bare.csv"), std::nullopt);
  for (const std::size_t left : {20u, 40u, 60u}) {
    const std::string cut = whole.substr(0, table.size() + left);
    EXPECT_EQ(code_of([&] { recipe_in(cut, "cut.csv"); }), ExitCode::bad_input) << left;
  }
}

TEST_F(FigureFiles, AreTheSameEveryTime) {
  for (const Figure& figure : example_figures()) {
    const PageSize page = page_size(SizePreset::one_column, figure);
    EXPECT_EQ(svg_text(figure, page), svg_text(figure, page)) << figure.id;
    if (!has_page_writer()) continue;
    EXPECT_EQ(pdf_bytes(figure, page), pdf_bytes(figure, page)) << figure.id;
    EXPECT_EQ(png_bytes(figure, page, light_theme(), {}, 72), png_bytes(figure, page, light_theme(), {}, 72))
        << figure.id;
  }
  const auto first = write_figure(tail_figure(), folder_ / "first", pictures()),
             second = write_figure(tail_figure(), folder_ / "second", pictures());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(contents(first[i]), contents(second[i])) << first[i];
}

TEST_F(FigureFiles, AreNeverOverwritten) {
  const Figure figure = filter_figure();
  const std::vector<FigureFormat> formats = {FigureFormat::svg, FigureFormat::csv};
  EXPECT_EQ(write_figure(figure, folder_ / "filter", formats)[0], folder_ / "filter.svg");
  fs::remove(folder_ / "filter.svg");  // one of a pair is enough to keep both
  const auto second = write_figure(figure, folder_ / "filter", formats);
  EXPECT_EQ(second[0], folder_ / "filter_2.svg");
  EXPECT_EQ(second[1], folder_ / "filter_2.csv");
  EXPECT_EQ(write_figure(figure, folder_ / "filter.svg", formats)[1], folder_ / "filter_3.csv");
  EXPECT_EQ(write_figure(figure, folder_ / "filter", formats, SizePreset::slide, {.overwrite = true})[0],
            folder_ / "filter.svg");
}

TEST_F(FigureFiles, TakeTheirFormatFromTheName) {
  EXPECT_EQ(write_figure(heat_figure(), folder_ / "map.v1.CSV", {})[0], folder_ / "map.v1.csv");
  EXPECT_EQ(write_figure(heat_figure(), folder_ / "map.v1", {FigureFormat::svg})[0], folder_ / "map.v1.svg");
  EXPECT_EQ(code_of([&] { write_figure(heat_figure(), folder_ / "map", {}); }), ExitCode::usage);
  EXPECT_EQ(code_of([&] { write_figure(heat_figure(), folder_ / "map.gif", {}); }), ExitCode::usage);
}

TEST_F(FigureFiles, TellWhereTheyCannotBeWritten) {
  EXPECT_EQ(code_of([&] { write_figure(heat_figure(), folder_ / "missing" / "map", {FigureFormat::svg}); }),
            ExitCode::bad_input);
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(code_of([&] { write_figure(heat_figure(), folder_ / "file" / "map", {FigureFormat::svg}); }),
            ExitCode::bad_input);
  try {
    write_figure(heat_figure(), folder_ / "missing" / "map", {FigureFormat::svg});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing"));
    EXPECT_THAT(error.what(), HasSubstr("does not exist"));
  }
}

TEST_F(FigureFiles, PathsThatTheSystemWouldCutAreRefused) {
  std::ofstream(folder_ / "kept") << "old";
  const fs::path cut = (folder_ / "kept").string() + std::string("\0_step7.svg", 11);
  EXPECT_EQ(code_of([&] { write_figure(tail_figure(), cut, {FigureFormat::svg}); }), ExitCode::bad_input);
  EXPECT_EQ(contents(folder_ / "kept"), "old");
}

TEST(PageWriter, TakesAwkwardFigures) {
  if (!has_page_writer()) GTEST_SKIP() << "this build writes no pages";
  for (const Figure& figure : awkward_figures()) {
    EXPECT_TRUE(pdf_bytes(figure, {40, 30, 7}).starts_with("%PDF-1.4")) << figure.id;
    EXPECT_TRUE(png_bytes(figure, {40, 30, 7}, dark_theme(), {}, 50).starts_with("\x89PNG")) << figure.id;
  }
}

TEST_F(FigureFiles, AreSmall) {
  for (const fs::path& path : write_figure(million_point_figure(), folder_ / "million", {FigureFormat::svg}))
    EXPECT_LT(fs::file_size(path), 300000u);
  if (!has_page_writer()) return;
  const auto pdf = write_figure(million_point_figure(), folder_ / "million", {FigureFormat::pdf}, SizePreset::slide);
  EXPECT_LT(fs::file_size(pdf[0]), 300000u);
}

TEST_F(FigureFiles, DamagedOnesAreTold) {
  for (const fs::path& path : write_figure(training_figure(), folder_ / "training", pictures())) {
    const std::string whole = contents(path);
    for (std::size_t size = 0; size < whole.size(); size += 97) {
      std::optional<std::string> recipe;
      const ExitCode code = code_of([&] { recipe = recipe_in(whole.substr(0, size), "cut"); });
      EXPECT_TRUE(code == ExitCode::bad_input || (code == ExitCode::done && recipe == training_figure().recipe))
          << path << " cut at " << size;
    }
    for (std::size_t at = 0; at < whole.size(); at += 61) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
      std::optional<std::string> recipe;
      const ExitCode code = code_of([&] { recipe = recipe_in(flipped, "flipped"); });
      EXPECT_TRUE(code == ExitCode::bad_input || !recipe || recipe == training_figure().recipe)
          << path << " flipped at " << at;
    }
  }
}

TEST_F(FigureFiles, HostileOnesAreTold) {
  const std::string signature = "\x89PNG\r\n\x1a\n";
  for (const std::string& bytes :
       {std::string(), std::string("hello"), std::string(1000, '\0'), signature,
        signature + "\xff\xff\xff\xffiTXtafterglow.recipe", signature + std::string("\0\0\0\0IEND", 8),
        std::string("%PDF-1.4\n%afterglow.recipe "),
        std::string("%PDF-1.4\n%afterglow.recipe 00000000\n%####\n%afterglow.recipe.end\n"),
        std::string("<svg><recipe xmlns=\"urn:afterglow:recipe\" crc32=\""),
        std::string("<svg><recipe xmlns=\"urn:afterglow:recipe\" crc32=\"12345678\">&bad;</recipe></svg>")}) {
    EXPECT_EQ(code_of([&] { recipe_in(bytes, "hostile"); }), ExitCode::bad_input) << bytes;
  }
  EXPECT_EQ(code_of([&] { read_recipe(folder_ / "nothing.svg"); }), ExitCode::bad_input);
  EXPECT_EQ(code_of([&] { read_recipe(folder_); }), ExitCode::bad_input);
}

TEST(PageWriter, SaysWhenItIsMissing) {
  if (has_page_writer()) GTEST_SKIP() << "this build writes pages";
  try {
    pdf_bytes(heat_figure(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("libcairo2-dev"));
  }
}

TEST(PageWriter, WritesPdfThatIsPlain) {
  if (!has_page_writer()) GTEST_SKIP() << "this build writes no pages";
  const std::string pdf = pdf_bytes(tail_figure(), page_size(SizePreset::one_column, tail_figure()));
  EXPECT_TRUE(pdf.starts_with("%PDF-1.4"));
  EXPECT_TRUE(pdf.ends_with("%%EOF\n"));
  EXPECT_EQ(pdf.find("/CreationDate"), std::string::npos);
  EXPECT_THAT(pdf, HasSubstr("/FontFile"));   // fonts embedded
  EXPECT_THAT(pdf, HasSubstr("/ToUnicode"));  // text as text
  const auto pointer = pdf.rfind("startxref\n");
  const std::size_t table = std::stoul(pdf.substr(pointer + 10));
  EXPECT_EQ(pdf.substr(table, 5), "xref\n");  // the recipe did not move what readers jump to
}

TEST(PageWriter, WritesPngWithItsPhysicalSize) {
  if (!has_page_writer()) GTEST_SKIP() << "this build writes no pages";
  const std::string png = png_bytes(heat_figure(), {85, 80, 7.5});
  const auto number_at = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png[at + i]);
    return value;
  };
  EXPECT_EQ(number_at(16), 1004u);  // 85 mm at 300 dpi
  EXPECT_EQ(number_at(20), 945u);
  const auto physical = png.find("pHYs");
  ASSERT_NE(physical, std::string::npos);
  EXPECT_EQ(number_at(physical + 4), 11811u);  // pixels per metre
  EXPECT_EQ(png[physical + 12], 1);
  EXPECT_EQ(number_at(physical + 13), crc32_of(std::string_view(png).substr(physical, 13)));
}

TEST(PageWriter, RefusesPicturesBeyondReason) {
  if (!has_page_writer()) GTEST_SKIP() << "this build writes no pages";
  EXPECT_EQ(code_of([] { png_bytes(heat_figure(), {2000, 2000, 12}, light_theme(), {}, 1200); }), ExitCode::bad_input);
  EXPECT_EQ(code_of([] {
              png_bytes(heat_figure(), {85, 80, 7.5}, light_theme(), {}, std::nan(""));
            }),
            ExitCode::bad_input);
}

TEST(Crc, IsThatOfPng) {
  EXPECT_EQ(crc32_of("123456789"), 0xcbf43926u);
  EXPECT_EQ(crc32_of("IEND"), 0xae426082u);
}

}  // namespace
}  // namespace afterglow
