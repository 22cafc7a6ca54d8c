// Parses CSV in place: cells are ranges of the file's text; quoted ones are unescaped in place. Writes tables with
// quotes only where needed, so that spreadsheets and pandas read the same.
#include "core/io/csv.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <utility>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

template <class... What>
[[noreturn]] void refuse_line(const std::string& where, std::size_t line, const What&... what) {
  throw BadInput(where, ", line ", line, ": ", what...);
}

/// The first of tab, semicolon, bar and comma that occurs outside of quotes in both of the first two lines.
char separator_of(std::string_view text) {
  constexpr std::string_view candidates = "\t;|,";
  std::array<unsigned, 3> seen{};  // a bit for each candidate, of two lines with content and the rest
  bool is_quoted = false, has_content = false;
  for (std::size_t at = 0, line = 0; at < text.size() && line < 2; ++at) {
    is_quoted = is_quoted != (text[at] == '"');
    if (is_quoted) continue;
    const bool is_end = text[at] == '\n' || text[at] == '\r';
    if (is_end && has_content) ++line;
    has_content = !is_end;
    if (const std::size_t found = candidates.find(text[at]); found != std::string_view::npos) seen[line] |= 1u << found;
  }
  const unsigned in_both = seen[1] == 0 ? seen[0] : seen[0] & seen[1];
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (in_both >> i & 1u) return candidates[i];
  }
  return ',';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool has_decimal_commas(std::string_view text) {
  for (std::size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',', comma + 1)) {
    if (comma > 0 && comma + 1 < text.size() && is_digit(text[comma - 1]) && is_digit(text[comma + 1])) return true;
  }
  return false;
}

std::size_t length_of(const CsvColumn& column) {
  return std::visit([](const auto& values) { return values.size(); }, column.values);
}

std::string field_of(const CsvColumn& column, std::size_t row) {
  if (const auto* numbers = std::get_if<std::vector<double>>(&column.values)) return shortest((*numbers)[row]);
  return std::get<std::vector<std::string>>(column.values)[row];
}

}  // namespace

class CsvParser {
 public:
  explicit CsvParser(CsvTable& table) : table_(table), text_(table.text_), where_(table.where_) {}

  void parse() {
    // Some programs write a second byte order mark before that of the file.
    while (text_.compare(next_, 3, "\xef\xbb\xbf") == 0) next_ += 3;
    while (!at_end() && at_line_end()) end_line();
    find_separator();
    if (only_blank_lines_left())
      throw BadInput(where_, " is empty; a header line with the names of the columns should be there");
    read_header();
    while (!only_blank_lines_left()) {
      const std::size_t line = line_, first = table_.cells_.size();
      read_row();
      take_row(line, first);
    }
    if (blank_rows_ > 0) table_.notes_.push_back("blank rows left out: " + std::to_string(blank_rows_));
  }

 private:
  using Cell = CsvTable::Cell;

  bool at_end() const { return next_ == text_.size(); }
  bool at_line_end() const { return at_end() || text_[next_] == '\n' || text_[next_] == '\r'; }

  /// In a table of one column an empty line between others is an empty field, at the end it is not.
  bool only_blank_lines_left() const { return text_.find_first_not_of("\r\n", next_) == std::string::npos; }

  /// Reads the separator from a first line "sep=;", as Excel does.
  void find_separator() {
    const std::size_t named = next_ + (text_.compare(next_, 1, "\"") == 0 ? 1 : 0);
    if (text_.compare(named, 4, "sep=") == 0 && text_.find_first_of("\r\n", named) > named + 4) {
      separator_ = text_[named + 4];
      next_ = std::min(text_.find_first_of("\r\n", named + 5), text_.size());
      end_line();
    } else {
      separator_ = separator_of(std::string_view(text_).substr(next_));
    }
  }

  void end_line() {
    if (!at_end() && text_[next_] == '\r') ++next_;
    if (!at_end() && text_[next_] == '\n') ++next_;
    ++line_;
  }

  void read_row() {
    for (;;) {
      table_.cells_.push_back(read_field());
      if (at_end() || text_[next_] != separator_) break;
      ++next_;
    }
    end_line();
  }

  /// Makes a row of the cells from `first` on, without empty cells at its end.
  void take_row(std::size_t line, std::size_t first) {
    std::vector<Cell>& cells = table_.cells_;
    const std::size_t width = table_.columns();
    const auto is_blank_cell = [&](const Cell& cell) {
      return trimmed(std::string_view(text_).substr(cell.begin, cell.length)).empty();
    };
    if (width > 1 && std::all_of(cells.begin() + static_cast<std::ptrdiff_t>(first), cells.end(), is_blank_cell)) {
      cells.resize(first);
      ++blank_rows_;
      return;
    }
    while (cells.size() > first + width && cells.back().length == 0) cells.pop_back();
    check_width(line, cells.size() - first);
    table_.lines_.push_back(static_cast<std::uint32_t>(line));
  }

  Cell read_field() {
    if (!at_end() && text_[next_] == '"') return read_quoted();
    const std::size_t begin = next_;
    while (!at_line_end() && text_[next_] != separator_) ++next_;
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(next_ - begin)};
  }

  Cell read_quoted() {
    const std::size_t first_line = line_;
    const std::size_t begin = ++next_;
    std::size_t end = begin;
    for (;;) {
      if (at_end()) refuse_line(where_, first_line, "a quote opens here that is never closed; close it or remove it");
      const char c = text_[next_++];
      if (c == '\n') ++line_;
      if (c == '"' && (at_end() || text_[next_] != '"')) break;
      if (c == '"') ++next_;  // two quotes mean one
      text_[end++] = c;
    }
    if (!at_line_end() && text_[next_] != separator_)
      refuse_line(where_, line_,
                  "text follows a closing quote; put the whole field into quotes and double the quotes inside");
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end - begin)};
  }

  void read_header() {
    const std::size_t line = line_;
    read_row();
    std::vector<Cell>& cells = table_.cells_;
    while (cells.size() > 1 && cells.back().length == 0) cells.pop_back();
    table_.has_decimal_commas_ = separator_ != ',' && has_decimal_commas(std::string_view(text_).substr(next_));
    if (table_.has_decimal_commas_) table_.notes_.emplace_back("its numbers have decimal commas");
    std::vector<std::string>& names = table_.names_;
    for (const Cell cell : cells) names.push_back(text_.substr(cell.begin, cell.length));
    if (is_data(names)) {
      for (std::size_t i = 0; i < names.size(); ++i) names[i] = "column " + std::to_string(i + 1);
      table_.notes_.emplace_back("its first line holds numbers, so it counts as data, and the columns have no names");
      table_.lines_.push_back(static_cast<std::uint32_t>(line));
      return;
    }
    cells.clear();
    std::vector<std::string> sorted = names;
    std::ranges::sort(sorted);
    const auto twice = std::ranges::adjacent_find(sorted);
    if (twice != sorted.end()) refuse_line(where_, line, "two columns are called ", in_quotes(*twice), "; rename one");
  }

  /// Whether a first line consists of numbers, or of times and numbers.
  bool is_data(const std::vector<std::string>& cells) const {
    std::vector<double> numbers;
    std::size_t times = 0, gaps = 0, others = 0;
    for (const std::string& cell : cells) {
      if (const std::optional<double> number = table_.number_in(cell)) {
        numbers.push_back(*number);
      } else {
        ++(looks_like_time(cell) ? times : is_gap(cell) ? gaps : others);
      }
    }
    return !numbers.empty() && (times > 0 || (others == 0 && !are_counted(cells.size(), numbers)));
  }

  /// Whether the names are 0, 1, 2 .., as pandas writes them for columns without names.
  bool are_counted(std::size_t columns, const std::vector<double>& numbers) const {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] != numbers[0] + static_cast<double>(i) || (numbers[0] != 0 && numbers[0] != 1)) return false;
    }
    if (columns < 2) return false;
    table_.notes_.emplace_back("its first line counts from " + shortest(numbers[0]) + " on, so it names the columns");
    return true;
  }

  void check_width(std::size_t line, std::size_t fields) const {
    if (fields == table_.names_.size()) return;
    refuse_line(where_, line, fields, fields == 1 ? " field" : " fields", " where the header has ",
                table_.names_.size(), "; add or remove fields (a comma inside one needs quotes)");
  }

  CsvTable& table_;
  std::string& text_;
  const std::string& where_;
  std::size_t next_ = 0;
  std::size_t line_ = 1;
  std::size_t blank_rows_ = 0;
  char separator_ = ',';
};

CsvTable parse_csv(std::string text, const std::string& where) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max())
    throw BadInput(where, " holds more than 4 GiB; split it");
  if (text.find('\0') != std::string::npos)
    throw BadInput(where, " holds zero bytes, so it is no CSV text; save it as CSV in UTF-8");
  CsvTable table;
  table.where_ = where;
  table.text_ = std::move(text);
  CsvParser(table).parse();
  return table;
}

std::string_view CsvTable::text(std::size_t row, std::size_t column) const {
  const Cell cell = cells_.at(row * columns() + column);
  return std::string_view(text_).substr(cell.begin, cell.length);
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  throw BadInput(where_, " has no column ", in_quotes(name), " among its ", columns(), did_you_mean(name, names_));
}

std::optional<double> CsvTable::number_in(std::string_view cell) const {
  const std::size_t comma = has_decimal_commas_ ? cell.find(',') : std::string_view::npos;
  if (has_decimal_commas_ && cell.find('.') != std::string_view::npos)
    return std::nullopt;  // a thousands separator, or a mistake
  if (comma == std::string_view::npos) return parse_number(cell);
  std::string text(cell);
  text[comma] = '.';
  return parse_number(text);
}

std::vector<double> CsvTable::numbers(std::size_t column) const {
  std::vector<double> result;
  result.reserve(rows());
  for (std::size_t row = 0; row < rows(); ++row) {
    const std::string_view cell = text(row, column);
    const std::optional<double> value = is_gap(cell) ? std::nan("") : number_in(cell);
    if (!value) {
      const char* remedy = has_decimal_commas_ ? "write it with a decimal comma, without points, as the table's others"
                           : cell.find(',') != std::string_view::npos ? "write it with a decimal point"
                                                                      : "correct it, or leave it empty";
      refuse_line(where_, lines_[row], "column ", column + 1, " (", in_quotes(names_[column]), ") is ", in_quotes(cell),
                  " where a number should be; ", remedy);
    }
    result.push_back(*value);
  }
  return result;
}

bool is_gap(std::string_view cell) {
  constexpr std::array<std::string_view, 11> signs{"",     "NA",   "na",   "N/A", "n/a", "#N/A",
                                                   "null", "NULL", "None", "-",   "?"};
  return std::ranges::find(signs, trimmed(cell)) != signs.end();
}

bool looks_like_time(std::string_view cell) {
  std::ptrdiff_t digits = 0, letters = 0;
  for (const char c : cell) {
    digits += is_digit(c);
    letters += std::isalpha(static_cast<unsigned char>(c)) != 0;
  }
  const std::size_t point = cell.find('.'), next = point == std::string_view::npos ? point : cell.find('.', point + 1);
  const bool has_points = next != std::string_view::npos && next - point <= 3;  // 31.12.2016, but not 1.234.567
  return digits > letters && !parse_number(cell) &&
         (has_points || cell.find_first_of("-/:", 1) != std::string_view::npos);
}

std::string format_csv(const std::vector<CsvColumn>& columns) {
  std::string text;
  const std::size_t rows = columns.empty() ? 0 : length_of(columns.front());
  for (const CsvColumn& column : columns) {
    if (length_of(column) != rows) {
      throw Error(ExitCode::failure, "cannot write a table: column '", column.name, "' has ", length_of(column),
                  " rows where the first has ", rows, "; make them equally long");
    }
  }
  const auto append_row = [&](auto field) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) line += (i > 0 ? "," : "") + csv_field(field(columns[i]));
    // Quotes an empty field that is the whole line, because readers skip empty lines.
    text += (columns.size() == 1 && line.empty() ? "\"\"" : line) + "\r\n";
  };
  append_row([](const CsvColumn& column) { return column.name; });
  for (std::size_t row = 0; row < rows; ++row)
    append_row([&](const CsvColumn& column) { return field_of(column, row); });
  return text;
}

std::filesystem::path write_csv(const std::filesystem::path& path, const std::vector<CsvColumn>& columns,
                                Existing existing) {
  return write_file_atomically(path, format_csv(columns), existing);
}

}  // namespace afterglow
