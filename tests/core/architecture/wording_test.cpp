// Pages and cleaned folders keep to plain words, pages stay short, and their links lead somewhere.
#include "tests/core/architecture/wording.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/core/architecture/sources.h"

namespace afterglow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Wording, PagesUsePlainWords) {
  const std::vector<Source> pages = all_pages();
  EXPECT_GT(pages.size(), 20) << "the pages were not found";
  for (const Source& page : pages) EXPECT_THAT(banned_words(page), IsEmpty()) << page.path;
}

TEST(Wording, CleanFoldersStayClean) {
  const auto sources = all_sources();
  for (const char* folder : clean_folders()) {
    EXPECT_TRUE(std::ranges::any_of(sources, [&](const Source& source) { return source.path.starts_with(folder); }))
        << folder << " holds no source";
    for (const Source& source : sources) {
      if (!source.path.starts_with(folder) || source.path.starts_with("tests/core/architecture/wording")) continue;
      EXPECT_THAT(banned_words(source), IsEmpty()) << source.path;
    }
  }
}

TEST(Wording, LessonsAssetsScriptsAndPythonUsePlainWords) {
  const std::vector<Source> texts = other_texts();
  for (const char* path : {"dev", "assets/lessons/tour.md", "assets/presets/tiny.json", "assets/cards/spectrum.json",
                           "assets/tables/mqar.json", "python/afterglow/_model.py", "tests/attack/kills.py"}) {
    EXPECT_NE(std::ranges::find(texts, path, &Source::path), texts.end()) << path;
  }
  for (const Source& text : texts) EXPECT_THAT(banned_words(text), IsEmpty()) << text.path;
}

TEST(Wording, PagesAreShort) {
  const std::vector<Source> pages = all_pages();
  for (const Source& page : pages) EXPECT_THAT(too_long(page), IsEmpty()) << page.path;
  EXPECT_LE(words_of_prose(pages), 25'000u);
}

TEST(Wording, LinksLeadSomewhere) {
  const std::vector<Source> pages = all_pages();
  for (const Source& page : pages) EXPECT_THAT(dead_links(page, pages), IsEmpty()) << page.path;
}

TEST(Wording, BannedWordsAreFoundInPagesAcrossLines) {
  EXPECT_THAT(banned_words({"a/README.md", "# Title\n\nThe window is\ntold when Somebody comes.\n"}),
              ElementsAre(AllOf(HasSubstr("a/README.md:4"), HasSubstr("Somebody"), HasSubstr("name the actor")),
                          HasSubstr("a/README.md:3")));
  EXPECT_THAT(banned_words({"a/README.md", "# The way back\n"}), SizeIs(1)) << "headings count";
}

TEST(Wording, CodeInPagesIsFree) {
  EXPECT_THAT(
      banned_words({"a/README.md", "Call `look_beside` or `is told`.\n\n    nobody --beside\n\n```\nwhoever\n```\n"}),
      IsEmpty());
}

TEST(Wording, SourcesCountByCommentsAndStrings) {
  EXPECT_THAT(
      banned_words({"a/b.cpp", "// For whoever\n/// looks.\nint nobody = f(\"who waits\");\n// who\n// asks\n"}),
      ElementsAre(HasSubstr("a/b.cpp:1"), HasSubstr("a/b.cpp:3"), HasSubstr("a/b.cpp:4")));
}

TEST(Wording, ScriptsCountAsAWhole) {
  EXPECT_THAT(banned_words({"a/b.py", "# The window is\n# told.\nif x is None: print('nobody')\n"}),
              ElementsAre(HasSubstr("a/b.py:3: `nobody`"), HasSubstr("a/b.py:1: `is")));
}

TEST(Wording, LongPagesAndCellsAreFound) {
  std::string cell, lines;
  for (int i = 0; i < 41; ++i) cell += "word ";
  for (int i = 0; i < 81; ++i) lines += "line\n";
  EXPECT_THAT(too_long({"a/README.md", "| short | " + cell + "|\n"}), ElementsAre(HasSubstr("a cell of 41 words")));
  EXPECT_THAT(too_long({"a/README.md", lines}), ElementsAre(HasSubstr("more than 80 lines")));
  EXPECT_THAT(too_long({"a/measurements.md", lines}), IsEmpty());
}

TEST(Wording, DeadLinksAreFound) {
  const std::vector<Source> pages{{"core/README.md", "# A core, of `parts`\n"}};
  const auto faults = [&](const std::string& text) { return dead_links({"core/README.md", text}, pages); };
  EXPECT_THAT(faults("[a](ops/ops.h) [b](#a-core-of-parts) [c](https://example.org/x#y)"), IsEmpty());
  EXPECT_THAT(faults("[a](ops/nothing.h)\n[b](#elsewhere)"),
              ElementsAre(HasSubstr("there is no file core/ops/nothing.h"),
                          HasSubstr("core/README.md:2: core/README.md has no")));
}

}  // namespace
}  // namespace afterglow
