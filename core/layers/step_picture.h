// The computation of a layer for one token, as a few pictures in the order of computation.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "core/io/number_text.h"

namespace afterglow {

/// A matrix, or a vector as a single row; with `curves` each row is a curve of positive values over the column number,
/// on a log scale.
struct StepPicture {
  std::string symbol;  ///< "A_w"; unique within a layer
  std::string about;   ///< its formula: "L⁻¹ M L⁻ᵀ"
  int rows = 0, columns = 0;
  std::vector<float> cells;              ///< [rows*columns], row-major
  std::vector<std::string> curves = {};  ///< a name for each row; empty: a heat map
  std::string across = "column";         ///< what the columns count
};

/// A number in a picture's caption, with three digits.
inline std::string caption_number(double value) {
  if (value == 0 || !std::isfinite(value)) return shortest(value);
  const double scale = std::pow(10.0, 2 - std::floor(std::log10(std::abs(value))));
  return shortest(std::round(value * scale) / scale);
}

/// A picture of float64 numbers. `columns` 0: a single row.
inline StepPicture step_picture(std::string symbol, std::string about, const std::vector<double>& cells,
                                int columns = 0) {
  const auto size = static_cast<int>(cells.size());
  if (columns <= 0) columns = size;
  return {std::move(symbol), std::move(about), columns > 0 ? size / columns : 0, columns, {cells.begin(), cells.end()}};
}

}  // namespace afterglow
