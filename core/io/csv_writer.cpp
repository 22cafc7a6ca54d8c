// Writes tables as CSV, with quotes only where needed, so that spreadsheets and pandas read the same.
#include "core/io/atomic_file.h"
#include "core/io/csv.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

std::size_t length_of(const CsvColumn& column) {
  return std::visit([](const auto& values) { return values.size(); }, column.values);
}

std::string field_of(const CsvColumn& column, std::size_t row) {
  if (const auto* numbers = std::get_if<std::vector<double>>(&column.values)) return shortest((*numbers)[row]);
  return std::get<std::vector<std::string>>(column.values)[row];
}

}  // namespace

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
