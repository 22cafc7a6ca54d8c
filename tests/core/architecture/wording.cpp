// The table of banned words, and the checks of pages line by line.
#include "tests/core/architecture/wording.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <regex>
#include <sstream>

#include "tests/support/folders.h"

namespace afterglow {

namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

struct Banned {
  const char* words;  ///< a regular expression; a blank stands for any white space
  const char* instead;
};

/// Words that made the program hard to read for people who had not written it.
constexpr Banned banned[] = {
    {"somebody|someone|nobody|no one|whoever", "name the actor: the user, the caller, the worker, a hook"},
    {"who (looks|asks|listens|waits|wants|sees|needs|stands)", "name the actor: a reader, the caller, a listener"},
    {"(is|are|was|be) told(?! apart)", "say who reports what to whom, or which parameter is given"},
    {"(the|its|their) way (back|there)|there and back", "backward, forward, both passes"},
    {"as (it|they) lies?|as it stands", "in place, without a copy"},
    {"(is|are) none", "say what is missing: there is no .., it counts as missing"},
    {"on (its|their) way", "in progress, pending, in flight"},
    {"stands? (here|there)", "shows, is written, is listed"},
    {"lies? (behind|beside|beyond)", "say where: after, next to, outside of"},
    {"beside|besides", "next to, with, against, on a second stream; or leave it out"},
    {"(a|the|each|every|all|no|first|slow) looks?", "an analysis, a measurement, a view"},
    {"looked at", "analysed, inspected, displayed"},
    {"is asked again|ask again", "is requested, is computed again, is invalidated"},
};

/// Of the rows of `banned`, in their order.
const std::vector<std::regex>& patterns() {
  static const std::vector<std::regex> all = [] {
    std::vector<std::regex> made;
    for (const Banned& row : banned) {
      const std::string words = std::regex_replace(std::string(row.words), std::regex(" "), "\\s+");
      made.emplace_back("\\b(" + words + ")\\b", std::regex::icase | std::regex::optimize);
    }
    return made;
  }();
  return all;
}

void blank(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) text[i] = text[i] == '\n' ? '\n' : ' ';
}

std::string without(std::string text, const std::regex& pattern) {
  const std::string whole = text;
  for (std::sregex_iterator found(whole.begin(), whole.end(), pattern); found != std::sregex_iterator(); ++found) {
    const auto begin = static_cast<std::size_t>(found->position());
    blank(text, begin, begin + static_cast<std::size_t>(found->length()));
  }
  return text;
}

std::string prose_of(const Source& source) {
  /// Of a page: fences, indented lines, backquotes, targets of links.
  static const std::regex code("```[^`]*```|\n    [^\n]*|`[^`\n]*`|\\]\\([^)\n]*\\)");
  /// Of a script: the marks of comments, and a comparison of Python.
  static const std::regex marks("(^|\n)[ \t]*#+|\\bis None\\b");
  const std::string ending = fs::path(source.path).extension().string();
  if (ending == ".md") return without(source.text, code);
  const bool is_cpp = std::ranges::any_of(std::initializer_list<const char*>{".cpp", ".h", ".cu", ".cuh", ".in"},
                                          [&](const char* one) { return ending == one; });
  return is_cpp ? prose_of_source(source) : without(source.text, marks);
}

std::size_t line_at(const std::string& text, std::ptrdiff_t position) {
  return static_cast<std::size_t>(1 + std::count(text.begin(), text.begin() + position, '\n'));
}

std::string place(const Source& source, std::size_t line) { return source.path + ":" + std::to_string(line) + ": "; }

std::size_t words_in(const std::string& text) {
  std::istringstream stream(text);
  return static_cast<std::size_t>(
      std::distance(std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()));
}

bool is_page(const std::string& path) {
  if (path.starts_with("assets/lessons/") || path.starts_with("tests/")) return path.ends_with("/README.md");
  return path.ends_with(".md");
}

bool is_text(const std::string& path) {
  if (path.starts_with("assets/lessons/") && path.ends_with(".md")) return true;
  if (path.starts_with("assets/") && path.ends_with(".json")) return !path.starts_with("assets/presets/pictures/");
  return path.ends_with("/CMakeLists.txt") || path.ends_with(".py") || path.ends_with(".sh") ||
         path.ends_with(".cmake") || path.ends_with(".sbatch");
}

/// 0: no limit.
std::size_t most_lines(const std::string& path) {
  if (path == "README.md") return 160;
  if (path == "CONTRIBUTING.md") return 250;
  if (path.ends_with("measurements.md")) return 150;
  return path.ends_with("README.md") ? 80 : 0;
}

/// As GitHub names the anchor of a heading.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    if (c == '-' || c == '_' || std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) > 127)
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

bool has_heading(const Source& page, const std::string& anchor) {
  std::istringstream lines(page.text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of('#');
    if (line.starts_with('#') && begin != std::string::npos && line[begin] == ' ' &&
        anchor_of(line.substr(begin + 1)) == anchor)
      return true;
  }
  return false;
}

/// What is wrong with a link's target; empty where it leads somewhere.
std::string fault_of_link(const Source& page, const std::string& target, const std::vector<Source>& pages) {
  const std::string file = target.substr(0, target.find('#'));
  const std::string anchor = file.size() < target.size() ? target.substr(file.size() + 1) : "";
  const fs::path path =
      file.empty() ? fs::path(page.path) : (fs::path(page.path).parent_path() / file).lexically_normal();
  if (!file.empty() && !fs::exists(source_folder() / path)) return "there is no file " + path.generic_string();
  if (anchor.empty()) return "";
  const auto found = std::ranges::find(pages, path.generic_string(), &Source::path);
  const bool there = found != pages.end() && has_heading(*found, anchor);
  return there ? "" : path.generic_string() + " has no heading #" + anchor;
}

}  // namespace

std::vector<Source> all_pages() {
  const fs::path& root = source_folder();
  std::vector<Source> pages;
  const auto take = [&](const fs::path& file) {
    const std::string path = fs::relative(file, root).generic_string();
    if (!is_page(path)) return;
    std::ifstream stream(file, std::ios::binary);
    pages.push_back({path, std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>())});
  };
  for (const auto& entry : fs::directory_iterator(root)) take(entry.path());
  for (const char* top : {"app", "assets", "core", "gpu", "python", "tests", "views"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) take(entry.path());
  }
  return pages;
}

std::vector<Source> other_texts() {
  const fs::path& root = source_folder();
  std::vector<Source> texts;
  const auto take = [&](const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    texts.push_back({fs::relative(file, root).generic_string(),
                     std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>())});
  };
  for (const char* name : {"dev", ".ci/run", "CMakeLists.txt", "assets/package/copyright", "assets/package/portable"})
    take(root / name);
  for (const char* top : {"app", "assets", "core", "gpu", "python", "tests", "views"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (entry.is_regular_file() && is_text(fs::relative(entry.path(), root).generic_string())) take(entry.path());
    }
  }
  return texts;
}

std::span<const char* const> clean_folders() {
  static constexpr const char* folders[] = {
      "app/",          "core/backend/cpu/", "core/backend/level/", "core/engine/", "core/figure/", "core/io/",
      "core/layers/",  "core/models/",      "core/random/",        "core/ranks/",  "core/recipe/", "core/remote/",
      "core/studies/", "core/tasks/",       "core/tensor/",        "gpu/",         "tests/",       "views/"};
  return folders;
}

std::vector<std::string> banned_words(const Source& source) {
  const std::string prose = prose_of(source);
  Texts result;
  for (std::size_t i = 0; i < std::size(banned); ++i) {
    for (std::sregex_iterator found(prose.begin(), prose.end(), patterns()[i]); found != std::sregex_iterator();
         ++found) {
      result.push_back(place(source, line_at(prose, found->position())) + "`" + found->str() +
                       "`: instead: " + banned[i].instead);
    }
  }
  return result;
}

std::vector<std::string> too_long(const Source& page) {
  Texts result;
  std::istringstream lines(page.text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.starts_with('|')) continue;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '|');) {
      if (words_in(cell) > 40)
        result.push_back(place(page, number) + "a cell of " + std::to_string(words_in(cell)) + " words");
    }
  }
  const std::size_t most = most_lines(page.path);
  if (most > 0 && number > most) result.push_back(place(page, number) + "more than " + std::to_string(most) + " lines");
  return result;
}

std::size_t words_of_prose(const std::vector<Source>& pages) {
  std::size_t words = 0;
  for (const Source& page : pages) {
    const std::string name = fs::path(page.path).filename().string();
    if (name == "README.md" || name == "CONTRIBUTING.md" || name == "SECURITY.md" || name == "measurements.md")
      words += words_in(page.text);
  }
  return words;
}

std::vector<std::string> dead_links(const Source& page, const std::vector<Source>& pages) {
  static const std::regex link("\\]\\(([^)\n ]+)\\)");
  Texts result;
  for (std::sregex_iterator found(page.text.begin(), page.text.end(), link); found != std::sregex_iterator(); ++found) {
    const std::string target = (*found)[1];
    if (target.starts_with("http")) continue;
    const std::string fault = fault_of_link(page, target, pages);
    if (!fault.empty()) result.push_back(place(page, line_at(page.text, found->position())) + fault);
  }
  return result;
}

}  // namespace afterglow
