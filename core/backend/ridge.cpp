// Sizes that follow from the configuration of the SKA core, for every back end.
#include "core/backend/ridge.h"

namespace afterglow {

std::int64_t RidgeConfig::groups(std::int64_t length) const {
  return mode == Mode::chunk ? (length + chunk - 1) / chunk : mode == Mode::recurrent ? length : 1;
}

std::int64_t RidgeConfig::group_of(std::int64_t i, const Shape& shape) const {
  const std::int64_t tokens = shape[1], heads = shape[2], t = i / heads % tokens;
  const std::int64_t group = mode == Mode::chunk ? t / chunk : mode == Mode::recurrent ? t : 0;
  return (i / (tokens * heads) * heads + i % heads) * groups(tokens) + group;
}

RidgeSizes RidgeInputs::sizes() const {
  const Shape &keys = z.shape, &values = v.shape;
  if (keys.rank() == 4) return {keys[0], keys[1], keys[2], keys[3], values[3]};
  const std::int64_t heads = eta.elements();
  return {keys[0], keys[1], heads, keys[2] / heads, values[2] / heads};
}

}  // namespace afterglow
