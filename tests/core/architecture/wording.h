// How prose is written: the words that are banned, and how long a README, a table cell and a page of measurements may
// be.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tests/core/architecture/rules.h"

namespace afterglow {

/// The READMEs, CONTRIBUTING.md, SECURITY.md, and what lies next to them: measurements and references. Lessons are
/// product text, and files of tests are data; neither is here.
std::vector<Source> all_pages();

/// What people read that is neither a page nor C++: lessons, presets, cards, tables and texts of packages under assets,
/// Python, shell scripts and build files.
std::vector<Source> other_texts();

/// The folders of sources whose comments and sentences for users keep to the list of words. One that has been cleaned
/// is added here, so that it stays clean.
std::span<const char* const> clean_folders();

/// "path:line: `words`: what to write instead" for every banned word or phrase, across the ends of lines too. Of a
/// Markdown page all but code counts, of a source comments and string literals, of any other file everything.
std::vector<std::string> banned_words(const Source& source);

/// What is too long: a README above 80 lines (the root's 160, CONTRIBUTING.md 250), measurements above 150, a table
/// cell above 40 words.
std::vector<std::string> too_long(const Source& page);

/// The words of the READMEs, CONTRIBUTING.md, SECURITY.md and measurements, all together.
std::size_t words_of_prose(const std::vector<Source>& pages);

/// Links to files that are not there, and to headings that their page does not have.
std::vector<std::string> dead_links(const Source& page, const std::vector<Source>& pages);

}  // namespace afterglow
