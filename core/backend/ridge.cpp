// Sizes that follow from the configuration of the SKA core, for every back end.
#include "core/backend/ridge.h"

#include <cmath>

namespace afterglow {

std::int64_t RidgeConfig::groups(std::int64_t length) const {
  switch (mode) {
    case Mode::chunk:
      return (length + chunk - 1) / chunk;
    case Mode::recurrent:
      return length;
    default:
      return 1;
  }
}

double ridge_gamma(double gamma_raw) { return 1.0 + 0.5 / (1.0 + std::exp(-gamma_raw)); }

RidgeSizes RidgeInputs::sizes() const {
  const Shape &keys = z.shape, &values = v.shape;
  if (keys.rank() == 4) return {keys[0], keys[1], keys[2], keys[3], values[3]};
  const std::int64_t heads = eta.elements();
  return {keys[0], keys[1], heads, keys[2] / heads, values[2] / heads};
}

}  // namespace afterglow
