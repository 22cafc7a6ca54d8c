// Parses CSV in place: cells are ranges of the file's own text, quoted ones unescaped where they stand.
#include "core/io/csv.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

[[noreturn]] void refuse(const std::string& where, std::size_t line, const std::string& what) {
  throw Error(ExitCode::bad_input, where + ", line " + std::to_string(line) + ": " + what);
}

}  // namespace

class CsvParser {
 public:
  explicit CsvParser(CsvTable& table) : table_(table), text_(table.text_), where_(table.where_) {}

  void parse() {
    // Programs that write one of their own before that of the file leave two.
    while (text_.compare(next_, 3, "\xef\xbb\xbf") == 0) next_ += 3;
    if (only_blank_lines_left()) {
      throw Error(ExitCode::bad_input,
                  where_ + " is empty; a header line with the names of the columns should be there");
    }
    read_header();
    while (!only_blank_lines_left()) {
      const std::size_t line = line_, first = table_.cells_.size();
      read_row();
      check_width(line, table_.cells_.size() - first);
      table_.lines_.push_back(static_cast<std::uint32_t>(line));
    }
  }

 private:
  using Cell = CsvTable::Cell;

  bool at_end() const { return next_ == text_.size(); }
  bool at_line_end() const { return at_end() || text_[next_] == '\n' || text_[next_] == '\r'; }

  /// In a table of one column an empty line amid others is an empty field, but never one at the end.
  bool only_blank_lines_left() const { return text_.find_first_not_of("\r\n", next_) == std::string::npos; }

  void read_row() {
    for (;;) {
      table_.cells_.push_back(read_field());
      if (at_end() || text_[next_] != ',') break;
      ++next_;
    }
    if (!at_end() && text_[next_] == '\r') ++next_;
    if (!at_end() && text_[next_] == '\n') ++next_;
    ++line_;
  }

  Cell read_field() {
    if (!at_end() && text_[next_] == '"') return read_quoted();
    const std::size_t begin = next_;
    while (!at_line_end() && text_[next_] != ',') ++next_;
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(next_ - begin)};
  }

  Cell read_quoted() {
    const std::size_t first_line = line_;
    const std::size_t begin = ++next_;
    std::size_t end = begin;
    for (;;) {
      if (at_end()) refuse(where_, first_line, "a quote opens here that is never closed; close it or remove it");
      const char c = text_[next_++];
      if (c == '\n') ++line_;
      if (c == '"' && (at_end() || text_[next_] != '"')) break;
      if (c == '"') ++next_;  // two quotes stand for one
      text_[end++] = c;
    }
    if (!at_line_end() && text_[next_] != ',') {
      refuse(where_, line_,
             "text follows a closing quote; put the whole field into quotes and double the quotes inside");
    }
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end - begin)};
  }

  void read_header() {
    read_row();
    for (const Cell cell : std::exchange(table_.cells_, {}))
      table_.names_.push_back(text_.substr(cell.begin, cell.length));
    const std::vector<std::string>& names = table_.names_;
    const auto separator = names.size() == 1 ? names[0].find_first_of(";\t") : std::string::npos;
    if (separator != std::string::npos) {
      refuse(where_, 1,
             std::string("the fields are separated by ") + (names[0][separator] == ';' ? "';'" : "tabs") +
                 " where commas should be; save the table with commas (and decimal points)");
    }
    if (std::all_of(names.begin(), names.end(),
                    [](const std::string& name) { return parse_number(name).has_value(); })) {
      refuse(where_, 1, "numbers where the names of the columns should be; put a header line in front");
    }
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) refuse(where_, 1, "two columns are called " + in_quotes(*twice) + "; rename one");
  }

  void check_width(std::size_t line, std::size_t fields) const {
    if (fields == table_.names_.size()) return;
    refuse(where_, line,
           std::to_string(fields) + (fields == 1 ? " field" : " fields") + " where the header has " +
               std::to_string(table_.names_.size()) + "; add or remove fields (a comma inside one needs quotes)");
  }

  CsvTable& table_;
  std::string& text_;
  const std::string& where_;
  std::size_t next_ = 0;
  std::size_t line_ = 1;
};

CsvTable parse_csv(std::string text, const std::string& where) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ExitCode::bad_input, where + " holds more than 4 GiB; split it");
  }
  if (text.find('\0') != std::string::npos) {
    throw Error(ExitCode::bad_input, where + " holds zero bytes, so it is no CSV text; save it as CSV in UTF-8");
  }
  CsvTable table;
  table.where_ = where;
  table.text_ = std::move(text);
  CsvParser(table).parse();
  return table;
}

CsvTable read_csv(const std::filesystem::path& path, std::size_t max_bytes) {
  return parse_csv(read_file(path, max_bytes), path.string());
}

std::string_view CsvTable::text(std::size_t row, std::size_t column) const {
  const Cell cell = cells_.at(row * columns() + column);
  return std::string_view(text_).substr(cell.begin, cell.length);
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  throw Error(ExitCode::bad_input, where_ + " has no column " + in_quotes(name) + " among its " +
                                       std::to_string(columns()) + did_you_mean(name, names_));
}

bool CsvTable::looks_numeric(std::size_t column) const {
  return rows() > 0 && parse_number(text(0, column)).has_value();
}

std::vector<double> CsvTable::numbers(std::size_t column) const {
  std::vector<double> result;
  result.reserve(rows());
  for (std::size_t row = 0; row < rows(); ++row) {
    const std::string_view cell = text(row, column);
    const auto value = parse_number(cell);
    if (value) {
      result.push_back(*value);
      continue;
    }
    const std::string place = "column " + std::to_string(column + 1) + " (" + in_quotes(names_[column]) + ") ";
    if (cell.find_first_not_of(" \t") == std::string_view::npos) {
      refuse(where_, lines_[row], place + "is empty where a number should be; fill the gap, or write nan to keep it");
    }
    const bool comma = cell.find(',') != std::string_view::npos;
    refuse(where_, lines_[row],
           place + "is " + in_quotes(cell) + " where a number should be; " +
               (comma ? "write it with a decimal point" : "correct it or write nan"));
  }
  return result;
}

}  // namespace afterglow
