// READMEs lead newcomers to files, and files move: every path that a README names in backquotes has to be there,
// written from the root, from the README's own folder, or by its last parts with its ending.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "tests/core/architecture/wording.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

using Texts = std::vector<std::string>;

/// Paths from the root of all that belongs to a folder of the architecture, to tests or assets.
Texts all_files() {
  Texts files;
  for (const char* top : {"app", "assets", "core", "gpu", "tests", "views"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_folder() / top)) {
      if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), source_folder()).generic_string());
    }
  }
  return files;
}

bool is_path(const std::string& word) {
  static const std::regex written_from_root(R"((app|assets|core|gpu|tests|views)/[\w./{},*<>-]*)"),
      with_ending(R"([\w./{},*<>-]+\.(h|cpp|cu|cuh|cmake|md|json|txt|in|safetensors|\{[a-z,]+\}))");
  return std::regex_match(word, written_from_root) || std::regex_match(word, with_ending);
}

/// Whether the first part of the word is a folder next to the README: `window/keys` in app/README.md.
bool is_relative_path(const std::string& word, const std::string& folder, const Texts& files) {
  static const std::regex parts(R"([\w.-]+/[\w./{},*<>-]*)");
  if (folder.empty() || !std::regex_match(word, parts)) return false;
  const std::string first = folder + word.substr(0, word.find('/') + 1);
  return std::any_of(files.begin(), files.end(), [&](const std::string& file) { return file.starts_with(first); });
}

/// What is in backquotes and is a path. One from the README's own folder (with a slash at its end, empty for the root)
/// is completed to the root.
Texts named_paths(const std::string& text, const std::string& folder = "", const Texts& files = {}) {
  static const std::regex quoted("`([^`\n]+)`");
  Texts paths;
  for (std::sregex_iterator found(text.begin(), text.end(), quoted); found != std::sregex_iterator(); ++found) {
    const std::string word = (*found)[1];
    if (is_relative_path(word, folder, files)) {
      paths.push_back(folder + word);
    } else if (is_path(word)) {
      paths.push_back(word);
    }
  }
  return paths;
}

/// Matches files that end with the path, files in a folder of that name, and sources whose ending it leaves out. `*`
/// and `<kind>` stand for any name, `{h,cpp}` for each of its parts.
std::regex pattern_of(std::string path) {
  if (path.ends_with('/')) path.pop_back();
  const std::pair<std::regex, const char*> changes[] = {{std::regex(R"(\.)"), R"(\.)"},
                                                        {std::regex(R"(\*|<[^>]*>)"), "[^/]*"},
                                                        {std::regex(R"(\{)"), "("},
                                                        {std::regex(R"(\})"), ")"},
                                                        {std::regex(","), "|"}};
  for (const auto& [from, to] : changes) path = std::regex_replace(path, from, to);
  return std::regex("(.*/)?" + path + R"((/.*|\.(h|cpp|cu|cuh))?)");
}

Texts missing_paths(const std::string& text, const Texts& files, const std::string& folder = "") {
  Texts missing;
  for (const std::string& path : named_paths(text, folder, files)) {
    const std::regex pattern = pattern_of(path);
    const bool there = std::any_of(files.begin(), files.end(),
                                   [&](const std::string& file) { return std::regex_match(file, pattern); });
    if (!there) missing.push_back(path);
  }
  return missing;
}

TEST(ReadmePaths, AreThere) {
  const Texts files = all_files();
  for (const Source& page : all_pages()) {
    const std::string folder = page.path.substr(0, page.path.rfind('/') + 1);
    EXPECT_THAT(missing_paths(page.text, files, folder), IsEmpty()) << page.path;
  }
}

TEST(ReadmePaths, AreSeenAmongOtherWords) {
  EXPECT_THAT(named_paths("`core/ops`, `ops.h` and `op_cases_<family>.cpp`, but `--json`, `param.*` and ops.h"),
              ElementsAre("core/ops", "ops.h", "op_cases_<family>.cpp"));
}

TEST(ReadmePaths, AreFoundInEveryWayOfWritingThem) {
  const Texts files{"core/ops/ops.h", "gpu/cuda_backend.h", "gpu/cuda_backend.cpp", "tests/support/op_cases_scan.cpp"};
  for (const char* text : {"`core/ops/ops.h`", "`ops.h`", "`core/ops/`", "`gpu/cuda_backend`", "`cuda_backend.{h,cpp}`",
                           "`op_cases_<family>.cpp`", "`gpu/cuda_*.h`"})
    EXPECT_THAT(missing_paths(text, files), IsEmpty()) << text;
  EXPECT_THAT(missing_paths("`core/layers`, `op.h`, `cuda_backend.{cu,cuh}`, `op_cases_*.h`", files),
              ElementsAre("core/layers", "op.h", "cuda_backend.{cu,cuh}", "op_cases_*.h"));
}

TEST(ReadmePaths, FromTheFolderOfTheReadmeAreFollowed) {
  const Texts files{"app/window/keys.cpp", "app/window/display/gl_window.cpp", "views/keys.h"};
  EXPECT_THAT(missing_paths("`window/keys`, `window/display/`, `window/*/gl_window`, `A/B`", files, "app/"), IsEmpty());
  EXPECT_THAT(missing_paths("`window/gl_window` and `window/script`", files, "app/"),
              ElementsAre("app/window/gl_window", "app/window/script"));
}

}  // namespace
}  // namespace afterglow
