// Tables as CSV files (RFC 4180): a reader that names line and column of what is wrong, and a writer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/io/atomic_file.h"
#include "core/io/number_text.h"

namespace afterglow {

/// A table of texts with one header row. Numbers are parsed when they are asked for, so that errors name their place.
class CsvTable {
 public:
  std::size_t rows() const { return lines_.size(); }
  std::size_t columns() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  std::string_view text(std::size_t row, std::size_t column) const;

  /// The index of a column; Error(bad_input) with the nearest name if there is none.
  std::size_t column(std::string_view name) const;
  /// Whether the first row holds a number there; false for a table without rows. Tells a date column from a value
  /// column.
  bool looks_numeric(std::size_t column) const;
  /// All values of a column; Error(bad_input) with line and column for a gap or a text. "nan" and "inf" are numbers.
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
  std::vector<std::uint32_t> lines_;  // of every row, counted from 1, the header being line 1
};

constexpr std::size_t csv_limit = std::size_t{256} << 20;

/// Lines may end with LF or CRLF, fields may be quoted and then hold commas, quotes ("") and line ends; byte order
/// marks and blank lines at the end are skipped. Throws Error(bad_input): no header, other number of fields, an open
/// quote, doubled names, another separator, zero bytes, more than `max_bytes`.
CsvTable read_csv(const std::filesystem::path& path, std::size_t max_bytes = csv_limit);
/// The same from text of at most 4 GiB; `where` names its source in messages.
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
