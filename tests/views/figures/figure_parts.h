// Reading a figure in tests.
#pragma once
#include <stdexcept>
#include <string>

#include "core/figure/decimate.h"

namespace afterglow {

/// The series of type T and that name; throws where the figure has none.
template <class T>
T series(const Figure& figure, const std::string& name) {
  for (const Series& s : figure.series) {
    if (std::holds_alternative<T>(s) && series_name(s) == name) return std::get<T>(s);
  }
  throw std::runtime_error("no series " + name + " in " + figure.id);
}

/// The values of a line, in order.
inline std::vector<double> heights(const Series& series) {
  const CurveView curve(std::get<Line>(series).curve);
  std::vector<double> y;
  for (std::size_t i = 0; i < curve.size(); ++i) y.push_back(curve.y(i));
  return y;
}

}  // namespace afterglow
