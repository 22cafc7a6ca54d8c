// Tables as CSV files (RFC 4180): a reader with line and column in its errors, and a writer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/io/atomic_file.h"
#include "core/io/number_text.h"

namespace afterglow {

/// A table of texts with column names. It parses numbers on request, so that errors name line and column.
class CsvTable {
 public:
  std::size_t rows() const { return lines_.size(); }
  std::size_t columns() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  std::string_view text(std::size_t row, std::size_t column) const;
  /// What the reader assumed or left out, one phrase each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// The index of a column; Error(bad_input) with the nearest name for a missing one.
  std::size_t column(std::string_view name) const;
  /// The line of the file in which a row begins, from 1.
  std::size_t line(std::size_t row) const { return lines_.at(row); }
  /// The number in a cell, with the table's decimal sign; nullopt for a gap or a text.
  std::optional<double> number_in(std::string_view cell) const;
  /// All values of a column, NaN for a gap; Error(bad_input) with line and column for a text. "inf" is a number.
  std::vector<double> numbers(std::size_t column) const;
  std::vector<double> numbers(std::string_view name) const { return numbers(column(name)); }

 private:
  friend CsvTable parse_csv(std::string text, const std::string& where);
  struct Cell {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
  };
  friend class CsvParser;

  std::string where_;
  std::string text_;
  std::vector<std::string> names_;
  std::vector<Cell> cells_;           // row by row
  std::vector<std::uint32_t> lines_;  // of every row
  bool has_decimal_commas_ = false;
  std::vector<std::string> notes_;
};

/// Whether a cell marks a missing value: empty, "NA", "null", "-", "?" and the like.
bool is_gap(std::string_view cell);
/// Whether a text has the form of a date or a time of day: more digits than letters, with "-", "/" or ":" inside.
bool looks_like_time(std::string_view cell);

constexpr std::size_t csv_limit = std::size_t{256} << 20;

/// Fields are separated by commas, semicolons (then with decimal commas, if there are any), tabs or bars, or by what
/// a first line "sep=" names. Lines may end with LF, CR or CRLF, fields may be quoted and then hold separators, quotes
/// ("") and line ends. Byte order marks, blank rows and separators at the ends of rows are skipped; without a header
/// the columns are called "column 1" and so on. Throws Error(bad_input): other number of fields, an open quote, doubled
/// names, zero bytes, more than 4 GiB. `where` names the source in messages.
CsvTable parse_csv(std::string text, const std::string& where);

struct CsvColumn {
  std::string name;  ///< with its unit in brackets: "time [s]"
  std::variant<std::vector<double>, std::vector<std::string>> values;
};

/// A header row and one row for each index, ended by CRLF; numbers with the shortest digits that read back exactly.
/// The columns must be equally long, else Error(failure).
std::string format_csv(const std::vector<CsvColumn>& columns);
/// Written atomically; returns the name that the file has (atomic_file.h).
std::filesystem::path write_csv(const std::filesystem::path& path, const std::vector<CsvColumn>& columns,
                                Existing existing = Existing::replace);

}  // namespace afterglow
