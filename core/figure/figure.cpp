// Small helpers of the figure value.
#include "core/figure/figure.h"

namespace afterglow {

Values::Values(std::vector<double> numbers) : size_(numbers.size()) {
  const auto owner = std::make_shared<const std::vector<double>>(std::move(numbers));
  numbers_ = std::shared_ptr<const double[]>(owner, owner->data());
}

const std::string& series_name(const Series& series) {
  return std::visit([](const auto& s) -> const std::string& { return s.name; }, series);
}

std::string axis_title(const Axis& axis) {
  if (axis.unit.empty()) return axis.label;
  return axis.label.empty() ? axis.unit : axis.label + " (" + axis.unit + ")";
}

}  // namespace afterglow
